"""The least that an agent can be, to compare with: `python bare_loops.py CLIENT SHELL URL`.

A hand-written loop over streamed Chat Completions with one tool, bash. Nothing is recorded, shown,
limited or retried. CLIENT is http.client or httpx2, SHELL is fresh (a bash for each command) or
persistent.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

CLIENTS = ("http.client", "httpx2")
SHELLS = ("fresh", "persistent")
_HEADERS = {"content-type": "application/json", "authorization": "Bearer sk-bench"}
_MARK = "--end-of-command--"
_TOOL = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
}
Post = Callable[[bytes], Iterator[bytes]]


def over_http_client(url: str) -> Post:
    """Lines of an answer by the standard library."""
    import http.client

    connection = http.client.HTTPConnection(urlsplit(url).netloc)

    def post(body: bytes) -> Iterator[bytes]:
        connection.request("POST", "/v1/chat/completions", body, _HEADERS)
        answer = connection.getresponse()
        while line := answer.readline():
            yield line

    return post


def over_httpx2(url: str) -> Post:
    """Lines of an answer by httpx2."""
    import httpx2

    client = httpx2.Client(trust_env=False, headers=_HEADERS)

    def post(body: bytes) -> Iterator[bytes]:
        with client.stream("POST", f"{url}/v1/chat/completions", content=body) as answer:
            for line in answer.iter_lines():
                yield line.encode()

    return post


def fresh(command: str) -> str:
    """The output of a bash of its own."""
    done = subprocess.run(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.stdout.decode(errors="replace")


def persistent() -> Callable[[str], str]:
    """One bash, fed line by line."""
    process = subprocess.Popen(
        ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def run(command: str) -> str:
        stdin.write(f"{command}\necho {_MARK}\n")
        stdin.flush()
        lines: list[str] = []
        for line in stdout:
            if line.rstrip() == _MARK:
                break
            lines.append(line)
        return "".join(lines)

    return run


def message_of(lines: Iterable[bytes]) -> dict[str, Any]:
    """The assistant's message that a streamed answer amounts to."""
    text = ""
    calls: dict[int, dict[str, Any]] = {}
    for line in lines:
        if not line.startswith(b"data: ") or line.strip() == b"data: [DONE]":
            continue
        for choice in json.loads(line[6:])["choices"]:
            delta = choice["delta"]
            text += delta.get("content") or ""
            for part in delta.get("tool_calls") or ():
                call = calls.setdefault(part["index"], part)
                if call is not part:
                    call["function"]["arguments"] += part["function"]["arguments"]
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {key: value for key, value in call.items() if key != "index"} for call in calls.values()
        ]
    return message


def loop(post: Post, run: Callable[[str], str]) -> str:
    """Ask and act until the model asks for nothing more."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You work with bash."},
        {"role": "user", "content": "Run true until you are done."},
    ]
    while True:
        body = {"model": "bench", "messages": messages, "tools": [_TOOL], "stream": True}
        message = message_of(post(json.dumps(body).encode()))
        messages.append(message)
        for call in message.get("tool_calls", ()):
            output = run(json.loads(call["function"]["arguments"])["command"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output or "ok"})
        if "tool_calls" not in message:
            return str(message["content"])


def main() -> None:
    client, shell, url = sys.argv[1:]
    post = over_http_client(url) if client == "http.client" else over_httpx2(url)
    print(loop(post, fresh if shell == "fresh" else persistent()))


if __name__ == "__main__":
    main()
