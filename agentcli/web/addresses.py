"""Decide which addresses a page may be fetched from: the public network, and those ports of this
machine that the user opened. A name is looked up only once, and the connection goes to the address
that was checked.
"""

from __future__ import annotations

import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

from agentcli.errors import ToolError, os_error_text

Address = IPv4Address | IPv6Address

PORTS = {"http": 80, "https": 443}
_LONGEST_URL = 4_000
_OF_THIS_MACHINE = ("127.0.0.1", "localhost")
_PUBLIC_V6 = IPv6Network("2000::/3")
_NO_PAGES: dict[IPv4Network | IPv6Network, str] = {
    ip_network(network): what
    for what, networks in {
        "this machine": ("0.0.0.0/8", "127.0.0.0/8", "::1/128", "::/128"),
        "a private network": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
        "the network of a provider (CGNAT)": ("100.64.0.0/10",),
        "the local link, where clouds keep their keys": ("169.254.0.0/16", "fe80::/10"),
        "a service of the cloud": ("168.63.129.16/32",),
        "for many (multicast)": ("224.0.0.0/4", "ff00::/8"),
        "an IPv4 address in another form": (
            *("::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"),
            "192.88.99.0/24",
        ),
        "reserved": (
            *("192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24"),
            *("203.0.113.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "3fff::/20"),
        ),
    }.items()
    for network in networks
}
"""Networks in IANA's registries of special IPv4 and IPv6 addresses that have no public pages."""


class Endpoint(NamedTuple):
    """The target of a connection."""

    address: Address
    port: int


def blocked_category(address: Address) -> str:
    """Describe an address that no page may be fetched from; "" if the address is public."""
    for network, what in _NO_PAGES.items():
        if address in network:
            return what
    if isinstance(address, IPv6Address) and (address.scope_id or address not in _PUBLIC_V6):
        return "reserved"
    return ""


def split_url(url: str) -> SplitResult:
    """Split the URL of a page. Raises ToolError if it is not valid."""
    if len(url) > _LONGEST_URL:
        raise _bad(f"an address may have at most {_LONGEST_URL:,} characters.")
    if re.search(r"[\x00-\x20\x7f\\]", url):
        raise _bad(
            "an address may not have blanks, backslashes or control characters: write %20, %5C."
        )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _bad(f"{url} is not the address of a page: {error}") from error
    if parts.scheme not in PORTS or not host:
        raise _bad(f"{url} is not the address of a page: it must begin with http:// or https://.")
    if parts.username is not None or parts.password is not None:
        raise _bad(f"an address with a name or password in it is not fetched: {host}.")
    return parts


def port_of(parts: SplitResult) -> int:
    """Return the URL's port, or else the default port of its scheme."""
    return parts.port or PORTS[parts.scheme]


def bare_host(host: str) -> str:
    """Return a host's name or address in lower case, without brackets and a dot at its end."""
    return host.strip("[]").rstrip(".").lower()


def site_of(host: str) -> str:
    """Return the host without `www.`: both names lead to the same site."""
    return bare_host(host).removeprefix("www.")


def is_own_service(host: str, port: int, open_ports: Collection[int]) -> bool:
    """Return whether host and port are a service of this machine that the user opened."""
    return bare_host(host) in _OF_THIS_MACHINE and port in open_ports


def look_up(host: str, port: int, open_ports: Collection[int], timeout_s: float) -> list[Endpoint]:
    """Return where pages of `host` may be fetched from; of this machine, only from `open_ports`.
    Raises ToolError if there is no such place. An interrupt can end the lookup of the name."""
    if is_own_service(host, port, open_ports):
        return [Endpoint(IPv4Address("127.0.0.1"), port)]
    found = _addresses(host, timeout_s)
    allowed = [address for address in found if not blocked_category(address)]
    if not allowed:
        raise _refused(host, port, found[0])
    return [Endpoint(address, port) for address in allowed]


def refused_at_once(url: str, open_ports: Collection[int]) -> str:
    """Return why `url` can't be fetched whatever a name server says; "" if this is not certain."""
    try:
        parts = split_url(url)
        host = (parts.hostname or "").rstrip(".")
        port = port_of(parts)
        if is_own_service(host, port, open_ports):
            return ""
        address = ip_address("127.0.0.1" if host in _OF_THIS_MACHINE else host)
    except ToolError as error:
        return error.message.rstrip(".")
    except ValueError:
        return ""
    return _refused(host, port, address).message.rstrip(".") if blocked_category(address) else ""


def connect(endpoints: Sequence[Endpoint], deadline: float) -> socket.socket:
    """Connect to the first of `endpoints` that answers before `deadline`, a time of the monotonic
    clock. Raises OSError; it is a TimeoutError if time ran out."""
    failure: OSError = TimeoutError("timed out")
    for left, endpoint in zip(range(len(endpoints), 0, -1), endpoints, strict=True):
        room = (deadline - time.monotonic()) / left
        if room <= 0:
            raise failure
        try:
            return socket.create_connection((str(endpoint.address), endpoint.port), room)
        except OSError as error:
            failure = error
    raise failure


def _addresses(host: str, timeout_s: float) -> list[Address]:
    """Return the addresses of a name, or `host` if it is one itself, in the system's order."""
    answers: queue.SimpleQueue[list[str] | OSError | UnicodeError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            answers.put([str(entry[4][0]) for entry in found])
        except (OSError, UnicodeError) as error:
            answers.put(error)

    # The system's resolver can't be interrupted, so it runs in a thread of its own.
    threading.Thread(target=ask, name="resolver", daemon=True).start()
    try:
        answer = answers.get(timeout=max(timeout_s, 0.001))
    except queue.Empty:
        message = f"{host} could not be looked up within {timeout_s:.0f} s."
        raise ToolError(message, error_id="unreachable") from None
    if isinstance(answer, OSError):
        message = f"There is no address for {host}: {os_error_text(answer)}."
        raise ToolError(message, error_id="unreachable")
    if isinstance(answer, UnicodeError) or not answer:
        raise _bad(f"{host} is not a valid host name.")
    return [ip_address(text) for text in dict.fromkeys(answer)]


def _refused(host: str, port: int, address: Address) -> ToolError:
    what = blocked_category(address)
    named = host if host == str(address) else f"{host} ({address})"
    message = f"{named} is not fetched from: that is {what}."
    if address.is_loopback:
        message += (
            " Reach a server that you started with curl in bash; for one of the user's they start "
            f"agent with --allow 'network(127.0.0.1:{port})'."
        )
    return ToolError(message, error_id="address_refused")


def _bad(message: str) -> ToolError:
    return ToolError(message, error_id="bad_url")


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
