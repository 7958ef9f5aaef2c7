"""A server made with the SDK: sdk_server.py, or sdk_server.py http to be reached at a free port,
which it prints."""

from __future__ import annotations

import asyncio
import socket
import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("shop", version="3")


@server.tool()
def price(article: str, count: int = 1) -> dict[str, float]:
    """What an article costs."""
    return {"price": 2.5 * count}


@server.tool()
async def count(to: int, context: Context) -> str:
    """Count, and tell how far it is."""
    for number in range(to):
        await context.report_progress(number, to)
    return f"counted to {to}"


@server.resource("shop://articles")
def articles() -> str:
    return "lamp, table"


@server.prompt()
def offer(customer: str) -> str:
    """Write an offer."""
    return f"Write an offer for {customer}."


async def serve() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        asyncio.run(serve())
    else:
        server.run()
