"""What is known of a provider before it is chosen, and where providers are found.

Nothing here loads an SDK or a wire format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from agentcli.extensions import ExtensionPoint


@dataclass(frozen=True)
class Provider:
    """What the file of a provider defines as `PROVIDER`."""

    protocol: str
    """Its wire format: a file of `llm/protocols`, or what an outside package enters as such."""
    title: str = ""
    """Its name for people; without one it is not offered to choose from."""
    base_url: str = ""
    key_env: str | None = None
    """The variable that holds the key. None: the server wants no key, and is taken for a
    local one: its models have a small window where none is set, and it is tried when no model is
    chosen."""
    keys_page: str = ""
    """Where a person gets a key."""
    default_model: str | None = None
    """Used when only a key is known."""
    price_list: str = ""
    """Its id in genai-prices, if it is there."""
    own_models: str = ""
    """How the names of its models begin, where its list of prices has others' too."""
    start: str = ""
    """The command that starts its server on this machine."""
    rank: int = 100
    """Without a model to use, the first in this order that has a key or answers is taken."""

    @property
    def local(self) -> bool:
        return self.key_env is None and bool(self.base_url)


PROVIDERS = ExtensionPoint(
    "agentcli.llm.providers", "PROVIDER", "agentcli.providers", Provider, dashed=True
)
PROTOCOLS = ExtensionPoint("agentcli.llm.protocols", "PROTOCOL", "agentcli.protocols", type)


def protocol_names() -> list[str]:
    """Of every wire format; none is imported."""
    return [*PROTOCOLS.file_names(), *PROTOCOLS.outside_names()]


@cache
def known_providers() -> Mapping[str, Provider]:
    """Every provider by its name, by rank."""
    return dict(sorted(PROVIDERS.all().items(), key=lambda item: item[1].rank))
