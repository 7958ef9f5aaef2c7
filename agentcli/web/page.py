"""A page as its server sent it, and the limits for fetching one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

JudgeURL = Callable[[str], Literal["allow", "ask", "deny"]]
"""Says whether the rules let an address be fetched."""


@dataclass(frozen=True)
class PageLimits:
    """Limits for one page: `seconds` in all, and `max_bytes` after unpacking. `open_ports` are the
    ports of this machine that may be fetched from. `proxied` means through the proxy that the
    environment sets, which looks names up itself."""

    seconds: float = 30.0
    max_bytes: int = 10_000_000
    open_ports: Collection[int] = ()
    proxied: bool = False


@dataclass(frozen=True)
class Page:
    """A page as its server sent it. `status` is a text such as `200 OK`. `cut` says why `data` is
    incomplete, if it is; `leads_to` is the target of a redirect that was not followed."""

    url: str
    status_code: int
    status: str = ""
    data: bytes = b""
    content_type: str = ""
    charset: str = ""
    cut: str = ""
    leads_to: str = ""
