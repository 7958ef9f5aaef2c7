"""What is known of a provider before one is chosen, and where providers are found.

Nothing here loads an SDK or a wire format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import urlsplit

from agentcli.extensions import ExtensionPoint
from agentcli.llm.probing import Ask
from agentcli.llm.traits import Rows, Traits


@dataclass(frozen=True)
class Provider:
    """What a provider's file defines as `PROVIDER`."""

    protocol: str
    """Its wire format: a file of `llm/protocols`, or one that an outside package registers."""
    title: str = ""
    """Its name for people; a provider without one is not offered as a choice."""
    base_url: str = ""
    key_env: str | None = None
    """The environment variable that holds the key. None means that the server needs no key and is
    taken for a local one: its models get a small window unless one is set, and it is tried when no
    model is chosen."""
    signs_in: bool = False
    """Whether its SDK finds credentials of its own where there is no key."""
    keys_page: str = ""
    """The web page on which people get a key."""
    default_model: str | None = None
    """The model to use when only a key is known."""
    price_list: str = ""
    """The id of its price list in genai-prices, if it has one."""
    own_models: str = ""
    """The prefix of its own models' names, if its price list also has others' models."""
    also_at: Sequence[str] = ()
    """Other addresses at which its server may be, if it is a local one."""
    address_env: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    """Environment variables that name its server, besides that of `address_variable`; each with
    what makes an address of the value. It may raise ValueError."""
    ask: Ask | None = None
    """How its server is asked what a model takes."""
    start: str = ""
    """The command that starts its server on this machine."""
    traits: Traits = field(default_factory=Traits)
    """How its requests differ from the plain form of the wire format."""
    models: Rows = field(default_factory=dict)
    """How those of single models differ, by a regular expression on the name."""
    rank: int = 100
    """Order of preference: when no model is set, the first that has a key or answers is used."""

    @property
    def local(self) -> bool:
        return self.key_env is None and not self.signs_in and bool(self.base_url)

    @property
    def is_hosted(self) -> bool:
        """Whether its servers are its own, at a known address."""
        return not self.local and self.base_url.startswith("https:")


PROVIDERS = ExtensionPoint(
    "agentcli.llm.providers", "PROVIDER", "agentcli.providers", Provider, dashed=True
)
PROTOCOLS = ExtensionPoint("agentcli.llm.protocols", "PROTOCOL", "agentcli.protocols", type)


def protocol_names() -> list[str]:
    """Return the names of all wire formats without importing any."""
    return [*PROTOCOLS.file_names(), *PROTOCOLS.outside_names()]


def built_in(name: str) -> Provider:
    """Return the provider called `name`; an empty one if it is only in the user's settings."""
    return known_providers().get(name) or Provider(protocol="")


def address_variable(name: str) -> str:
    """Return the variable that usually names the address of the provider called `name`: that of its
    key with BASE_URL in place of API_KEY, as both SDKs have it."""
    prefix, is_key, _ = (built_in(name).key_env or "").partition("_API_KEY")
    return f"{prefix if is_key else name.upper().replace('-', '_')}_BASE_URL"


def is_hosted(base_url: str) -> bool:
    """Whether an address is on the host of a known provider."""
    return any(each.is_hosted for each in _at_host_of(base_url))


def kin(name: str, protocol: str, base_url: str) -> Provider:
    """Return the provider whose requests those of `name` resemble when it is at `base_url` and uses
    the wire format `protocol`: itself, or else the known one on that host; an empty one if there is
    none."""
    own = built_in(name)
    if own.protocol == protocol:
        return own
    same = (each for each in _at_host_of(base_url) if each.protocol == protocol)
    return next(same, Provider(protocol=""))


def _at_host_of(base_url: str) -> Iterator[Provider]:
    host = urlsplit(base_url).hostname
    known = (each for each in known_providers().values() if each.base_url)
    return (each for each in known if urlsplit(each.base_url).hostname == host)


@cache
def known_providers() -> Mapping[str, Provider]:
    """Return every provider by name, ordered by rank."""
    return dict(sorted(PROVIDERS.all().items(), key=lambda item: item[1].rank))
