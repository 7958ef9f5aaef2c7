"""Static description of a provider: its address, its key, and the traits of its requests.

A provider's file says what is known beforehand; what a refusal teaches (`llm/healing.py`) is kept
per endpoint and model (`Findings` in `llm/probing.py`). Nothing here loads an SDK or a wire format.

Sources of the families: the model pages of platform.claude.com/docs (thinking, effort, what is new
in 4.6 to 5.5) and `types/` of anthropic-sdk-python 2.14; the deployment checklist of
developers.openai.com and the profile of OpenAI's models in pydantic-ai.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal
from urllib.parse import urlsplit

from agentcli.extensions import ExtensionPoint

LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Effort levels, the least first; the words of both SDKs."""

Efforts = Mapping[str, Mapping[str, Any]]
"""By level, the body members that tell a model how much to reason."""
Rows = Mapping[str, Mapping[str, Any]]
"""Changes of traits by a regular expression on the model's name."""
_SHOWN = {"type": "adaptive", "display": "summarized"}
"""Without `display`, thinking and the text between calls arrive empty from Claude 4.7 on."""
_OFF = {"none": {"thinking": {"type": "disabled"}}}
_SAMPLING = ("temperature", "top_p", "top_k")
BUDGETS = {
    level: {"thinking": {"type": "enabled", "budget_tokens": tokens}}
    for level, tokens in {"low": 4_096, "medium": 10_240, "high": 24_576}.items()
}
GEMINI_STAND_IN = {
    "extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}
}
"""What passes for the signature of a call that another model made."""
Get = Callable[[str], Any]
"""Returns the JSON at a path of the server, or None. A path that begins with `/` is below the host,
any other below the base URL. Raises OSError if the server does not answer."""
PROTOCOLS = ExtensionPoint("agentcli.llm.protocols", "PROTOCOL", "agentcli.protocols", type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """How an endpoint's requests differ from the plain form of its wire format."""

    always: Mapping[str, Any] = field(default_factory=dict)
    """Body members of every request."""
    efforts: Efforts | None = None
    """None: as the wire format usually tells it; empty: it can't be told."""
    unwanted: Sequence[str] = ()
    """Body members that are never sent."""
    output_limit: str = ""
    """The member that caps a reply; empty: as the wire format names it."""
    most_output_tokens: int = 0
    """The largest cap that is accepted; 0: not known."""
    system_role: Literal["system", "developer", "user"] = "system"
    forced_tools: bool = True
    """Whether a reply can be made to call a tool."""
    tools: Literal["native", "text"] = "native"
    """`text`: tools are described in the system text, and calls are text."""
    images: Literal["anywhere", "messages", "none"] = "anywhere"
    """`messages`: only in what the user says, not in results of tools."""
    schema: str = ""
    """Which JSON Schema tools may use: a row of `llm/tool_schemas.py`; empty: what
    nearly all take."""
    unwanted_keywords: Sequence[str] = ()
    """Keywords left out of tools' schemas."""
    cache_marks: bool = True
    """Whether what is to be cached may be marked."""
    short_ids: bool = False
    """Whether ids of calls have exactly nine letters and digits."""
    plain_ids: bool = False
    """Whether ids of calls have only letters, digits, `_` and `-`."""
    cache_key: bool = False
    """Whether the session's id may be sent, to find what is cached."""
    user_after_tool: bool = True
    """Whether a message of the user may follow the result of a tool."""
    not_returned: Sequence[str] = ()
    """Members of a model's own messages, and types of its content blocks or items, that it does not
    take back."""
    filled: Mapping[str, Any] = field(default_factory=dict)
    """Members that each message of the model must have; with these values where it lacks them."""
    stand_in: Mapping[str, Any] = field(default_factory=dict)
    """Members of the first call of a reply that another model wrote."""
    is_bound: bool = False
    """Whether a model's thinking is valid only after exactly what came before it."""

    def effort(self, wanted: str | None, usual: Efforts) -> Mapping[str, Any]:
        """Return the body members for `wanted`, or for the nearest level there is; `usual` is the
        wire format's own table."""
        table = usual if self.efforts is None else self.efforts
        return table[nearest_level(wanted, table)] if wanted and table else {}

    def with_changes(self, changes: Mapping[str, Any]) -> Traits:
        """Return these traits with `changes`, which may come from a file: what is unknown or of the
        wrong type is left out."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        fitting = {n: v for n, v in changes.items() if n in known and _fits(v, known[n])}
        return replace(self, **fitting)


def _fits(value: object, current: object) -> bool:
    for kind in (bool, int, str, Mapping):
        if isinstance(current, kind):
            return isinstance(value, kind) and isinstance(value, bool) == isinstance(current, bool)
    return isinstance(value, Mapping if current is None else list | tuple)


def of_model(model: str, traits: Traits, rows: Rows) -> Traits:
    """Return `traits` with the changes of each row that fits the model's name, in order."""
    for pattern, changes in rows.items():
        if re.search(pattern, model, re.IGNORECASE):
            traits = replace(traits, **changes)
    return traits


def nearest_level(wanted: str, levels: Mapping[str, Any] | Sequence[str]) -> str:
    """Return the level of `levels` (of which there are some) that is nearest to `wanted`: between
    two the lower, and never `none` for a level that asks for reasoning, if there is another."""
    if wanted in levels:
        return wanted
    reasoning = [level for level in LEVELS[1:] if level in levels] or list(levels)
    place = LEVELS.index(wanted) if wanted in LEVELS else LEVELS.index("medium")
    return min(reasoning, key=lambda level: abs(LEVELS.index(level) - place))


def levels(words: str, member: str = "reasoning_effort", **none: Any) -> Efforts:
    """Return a table in which each level of `words` is the value of `member` (`a.b`: of `b` within
    `a`), or what follows it after `=`; `none` are the members that turn reasoning off."""
    outer, _, inner = member.partition(".")
    table: dict[str, Mapping[str, Any]] = {"none": none} if none else {}
    for word in words.split():
        level, _, other = word.partition("=")
        value = other or level
        table[level] = {outer: {inner: value} if inner else value}
    return table


def _adaptive(words: str, thinking: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {
        word: {"thinking": thinking, "output_config": {"effort": word}} for word in words.split()
    }


ADAPTIVE = _adaptive("low medium high xhigh max", _SHOWN)

CLAUDE: Rows = {
    "claude": {
        "always": {"thinking": _SHOWN},
        "efforts": ADAPTIVE,
        "unwanted": _SAMPLING,
        "forced_tools": False,
        "is_bound": True,
        "most_output_tokens": 128_000,
    },
    r"claude-haiku-5[.-]5": {"efforts": _OFF | ADAPTIVE},
    r"claude-(fable|mythos)-5(?![.-]\d(?!\d))": {"is_bound": False},
    r"claude-(opus|sonnet|haiku)-5(?![.-]\d(?!\d))": {
        "efforts": _OFF | ADAPTIVE,
        "forced_tools": True,
        "is_bound": False,
    },
    r"claude-\w+-4[.-][78](?!\d)": {
        "always": {},
        "efforts": _OFF | ADAPTIVE,
        "forced_tools": True,
        "is_bound": False,
    },
    r"claude-\w+-4[.-]6(?!\d)": {
        "always": {},
        "efforts": _OFF | _adaptive("low medium high max", {"type": "adaptive"}),
        "unwanted": (),
        "forced_tools": True,
        "is_bound": False,
    },
    r"claude-(\w+-4(?![.-][678](?!\d))|3)": {
        "always": {},
        "efforts": _OFF | BUDGETS,
        "unwanted": (),
        "forced_tools": True,
        "is_bound": False,
        "most_output_tokens": 64_000,
    },
    r"claude-3(?![.-]7)": {"efforts": {}, "most_output_tokens": 8_192},
}


def _gpt(table: Callable[[str], Efforts]) -> Rows:
    """Return the rows of OpenAI's models; `table` makes one of efforts from the names of levels."""
    from_low = "low medium high xhigh max"
    return {
        r"gpt-|(^|/)o\d": {"efforts": table(from_low), "unwanted": _SAMPLING},
        r"gpt-(5\.6|6-sol|6-luna)": {"efforts": table(f"none {from_low}")},
        r"gpt-5\.5": {"efforts": table("none low medium high xhigh")},
        r"gpt-5\.[234]": {"efforts": table("none low medium high xhigh"), "unwanted": ()},
        r"gpt-5\.1": {"efforts": table("none low medium high"), "unwanted": ()},
        r"gpt-5\.\d.*-(pro|codex)": {
            "efforts": table("low medium high xhigh"),
            "unwanted": _SAMPLING,
        },
        r"gpt-5(?!\.)": {"efforts": table("minimal low medium high")},
        r"(^|/)o\d": {"efforts": table("low medium high")},
        r"gpt-oss": {"efforts": table("low medium high"), "unwanted": ()},
        r"gpt-[34]|gpt-.*-chat": {"efforts": {}, "unwanted": ()},
    }


GPT = _gpt(
    lambda words: {
        word: {"reasoning": {"effort": word, "summary": "auto"}} for word in words.split()
    }
)
GPT_CHAT = {
    **_gpt(levels),
    # There, functions are refused unless the model does not reason.
    r"gpt-(5\.6|6-sol|6-luna)": {"always": {"reasoning_effort": "none"}, "efforts": {}},
}


BY_PROTOCOL: Mapping[str, Rows] = {
    "anthropic_messages": CLAUDE,
    "bedrock": CLAUDE,
    "vertex": CLAUDE,
    "responses": GPT,
}
"""By wire format, the rows that hold at every endpoint: gateways and clouds serve these models
under names that contain their own."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server says of one model, as far as it does."""

    window: int = 0
    """Tokens that the model takes as it is loaded; 0: not known."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Of the traits."""
    message: str = ""
    """What people should know of it, in one line."""
    loaded: Sequence[str] = ()
    """The ids of all models that are in memory."""
    may_change: bool = False
    """Whether the model is not in memory yet, so that there is more to learn later."""


Ask = Callable[[Get, str], Facts | None]
"""Asks a kind of server about a model; None: it is not of that kind."""


@dataclass(frozen=True)
class Provider:
    """What a provider's file defines as `PROVIDER`."""

    protocol: str = "chat_completions"
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


def matching_provider(name: str, protocol: str, base_url: str) -> Provider:
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
