"""A page as a server answered it, and the limits on one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

JudgeURL = Callable[[str], Literal["allow", "ask", "deny"]]
"""What the rules say of fetching an address."""


@dataclass(frozen=True)
class PageLimits:
    """Seconds for the whole of a page, bytes of it that are read once they are unpacked.
    `open_ports`: of this machine, those that may be fetched from. `proxied`: through the proxy that
    the environment names, which looks names up itself."""

    seconds: float = 30.0
    max_bytes: int = 10_000_000
    open_ports: Collection[int] = ()
    proxied: bool = False


@dataclass(frozen=True)
class Page:
    """`status` is such as `200 OK`. `cut` says why there is less of `data` than there was;
    `leads_to` is where it redirects to, if nobody goes there."""

    url: str
    status_code: int
    status: str = ""
    data: bytes = b""
    content_type: str = ""
    charset: str = ""
    cut: str = ""
    leads_to: str = ""
