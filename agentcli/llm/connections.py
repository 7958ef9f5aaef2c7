"""The way to a server: its SDK, the proxy in between, certificates, and connections that fail.

Both SDKs re-export everything from their packages' `__init__`, so `import anthropic` runs some
3,000 modules. Here a package's `__init__` runs only when a name is requested that its own `from
.module import name` lines don't define. A name they do define is fetched from that module alone, as
with PEP 810's lazy imports. Modules that are not packages load as usual.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from ipaddress import ip_address, ip_network
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentcli.errors import ConfigError, LLMError, LLMErrorKind

if TYPE_CHECKING:
    import ssl


_RELATIVE_IMPORT = re.compile(r"^from (\.+[\w.]*) import (\([^)]*\)|[^\n(]+)$", re.MULTILINE)
_LOADER = "__lazy_loader__"
_NAMES = "__lazy_names__"
_EXEMPT = re.compile(
    r"(?:\w+://)?(?:\*?\.)?(?:(?P<host>\[.+\]|[^:\[\]]+)(?::(?P<port>\d+))?|(?P<address>[^\[\]]+))"
)


class _LazyPackage(ModuleType):
    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        package = own["__name__"]
        missing = AttributeError(f"module {package!r} has no attribute {name!r}")
        if _LOADER not in own:
            raise missing
        if _NAMES not in own:
            own[_NAMES] = _names_by_origin(own[_LOADER].get_source(package))
        if name in own[_NAMES]:
            module, original = own[_NAMES][name]
            if module.strip("."):
                value = getattr(importlib.import_module(module, package), original)
            else:
                value = importlib.import_module(module + original, package)
            own[name] = value
            return value
        if name.startswith("__") and name != "__all__":
            raise missing
        if importlib.machinery.PathFinder.find_spec(f"{package}.{name}", own["__path__"]):
            return importlib.import_module(f".{name}", package)
        loader = own.pop(_LOADER)
        object.__setattr__(self, "__class__", ModuleType)
        loader.exec_module(self)
        return getattr(self, name)


def _names_by_origin(source: str) -> dict[str, tuple[str, str]]:
    """Map each name that a package imports from its own modules to the module and the name
    there."""
    names = {}
    for module, imported in _RELATIVE_IMPORT.findall(source):
        for item in imported.strip("()").split(","):
            words = item.split("#")[0].split()
            if words and words[0] != "*":
                names[words[-1]] = (module, words[0])
    return names


class _LazyLoader(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _LazyPackage(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__[_LOADER] = self._loader


class _LazyFinder(MetaPathFinder):
    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] != self._package:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec and spec.loader and spec.submodule_search_locations is not None:
            spec.loader = _LazyLoader(spec.loader)
        return spec


def make_lazy(package: str) -> None:
    """Make imports of `package`, and of everything below it, lazy from now on."""
    if package not in sys.modules:
        sys.meta_path.insert(0, _LazyFinder(package))


@dataclass(frozen=True)
class Proxy:
    """A proxy, and the variable that names it."""

    url: str
    variable: str

    @property
    def shown(self) -> str:
        """The proxy for people, without user and password."""
        return f"{re.sub('//[^/]*@', '//', self.url)} ({self.variable})"


def proxy_for(base_url: str) -> Proxy | None:
    """Return the proxy through which requests to `base_url` go, as the environment or the system
    says; None for a direct connection. This machine is reached directly, as in Go's net/http."""
    from urllib.request import getproxies

    address = urlsplit(base_url)
    host = address.hostname or ""
    known = getproxies()
    scheme = next((name for name in (address.scheme, "all") if known.get(name)), "")
    if not scheme or is_local(base_url) or _is_exempt(host, address.port, known.get("no", "")):
        return None
    url = known[scheme] if "://" in known[scheme] else f"http://{known[scheme]}"
    # As GNOME's settings write it.
    url = re.sub("^socks://", "socks5://", url)
    names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY")
    variable = next((name for name in names if os.environ.get(name)), "the system's settings")
    return Proxy(url, variable)


def _is_exempt(host: str, port: int | None, exempt: str) -> bool:
    """Whether an entry of NO_PROXY fits: `*`, a host with or without port, the end of a name, an
    address, or a network as in `10.0.0.0/8`."""
    for entry in re.split(r"[,\s]+", exempt.lower()):
        found = _EXEMPT.fullmatch(entry)
        if found is None or found["port"] not in (None, str(port)):
            continue
        name = (found["host"] or found["address"]).strip("[]")
        if name in ("*", host) or host.endswith(f".{name}") or _is_in_network(host, name):
            return True
    return False


def _is_in_network(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


def certificates() -> ssl.SSLContext:
    """Return what servers are verified by. Raises ConfigError if a file that the environment names
    can't be used."""
    import httpcore2

    try:
        return httpcore2.default_ssl_context()
    except OSError as error:
        named = [name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)]
        variable = named[0] if named else "the system"
        file = f" ({os.environ[named[0]]})" if named else ""
        raise ConfigError(
            f"the certificates of {variable}{file} can't be loaded: {error.strerror or error}",
            hint="name a PEM file that holds the CA of the server, or unset it" if named else "",
        ) from error


def http_failure(origin: str, error: BaseException, start: str = "") -> LLMError | None:
    """Return the error for an exception of the HTTP client, None for any other. `start` is the
    command that starts the server, if it is a local one."""
    import httpx2

    # Python puts a prefix before the system's message.
    what = re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or type(error).__name__
    if isinstance(error, httpx2.ConnectError) and is_local(origin) and _is_refused(error):
        again = "or see what else can be reached: agent models"
        return LLMError(
            LLMErrorKind.NOT_RUNNING,
            f"nothing listens at {origin}",
            hint=f"start it: {start}\n  {again}" if start else f"start the server; {again}",
        )
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return _unreachable(origin, what)
    if isinstance(error, httpx2.TimeoutException):
        return LLMError(LLMErrorKind.TIMEOUT, f"{origin} did not answer in time")
    if isinstance(error, httpx2.TransportError):
        return LLMError(LLMErrorKind.CONNECTION, f"the connection to {origin} broke: {what}")
    if isinstance(error, httpx2.DecodingError):
        return LLMError(LLMErrorKind.BAD_RESPONSE, f"{origin} sent a garbled answer ({what})")
    return None


def through_proxy(origin: str) -> str:
    """Return words that name the proxy on the way to `origin`; empty if there is none."""
    proxy = proxy_for(origin)
    return f" through the proxy {proxy.shown}" if proxy else ""


def _unreachable(origin: str, what: str) -> LLMError:
    through = through_proxy(origin)
    hint = "is the server up, and the address right? agent doctor"
    if through:
        host = urlsplit(origin).hostname
        hint = f"is the proxy right? If {host} needs none: export NO_PROXY={host}"
    if "407" in what:
        hint = "the proxy wants a name and password: put them before its host, as name:password@"
    if "CERTIFICATE_VERIFY_FAILED" in what:
        hint = (
            "if the server, or a proxy in between, has a certificate of its own, name the file of "
            "its CA: export SSL_CERT_FILE=/path/to/ca.pem"
        )
    return LLMError(LLMErrorKind.CONNECTION, f"can't reach {origin}{through}: {what}", hint=hint)


def is_local(origin: str) -> bool:
    host = urlsplit(origin).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _is_refused(error: BaseException | None) -> bool:
    """Whether the system refused the connection, however often that error was wrapped."""
    while error is not None and not isinstance(error, ConnectionRefusedError):
        error = error.__cause__ or error.__context__
    return error is not None
