"""What to leave out of a request, or send in another form, after a refusal that names its cause.

Tables in the files of providers say what is known beforehand; this covers what is not. A cause is
recognised by what the request contains and the server's words name, whatever the server is. Each
cause is remedied once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agentcli.errors import LLMError, LLMErrorKind
from agentcli.llm.families import ADAPTIVE, BUDGETS
from agentcli.llm.traits import LEVELS, Traits, nearest_level
from agentcli.messages import Request, ToolChoice, without
from agentcli.plain_schemas import Schema, parts, plain

_STATUSES = (400, 402, 404, 413, 415, 422, 500, 501)
_NEEDED = frozenset(
    {"model", "messages", "input", "stream", "tools", "system", "instructions", "max_tokens"}
)
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_OTHER_LIMIT = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}
_TELLERS = ("thinking", "output_config", "reasoning_effort", "reasoning")
"""Members that tell how much to reason."""
_EXTRA = r"unrecogni|unknown|unsupported|not support|extra (?:inputs|fields)|not permitted"
_LEAST_TOKENS = 256
_PAYS_FOR = 0.95
"""Share of the tokens an account can pay for: their number is an estimate."""
_NUMBER = re.compile(r"(?<![\w.<-])\d[\d,]*(?![\w.,-]*[a-z\d])")

_REFUSED = (
    r"not? support|unsupported|not? allowed|not? permitted|unrecogni|unknown|unexpected|invalid"
    r"|extra (?:inputs|fields)|deprecated|cannot be|can't be|must not|no endpoints|not available"
    r"|not enabled|n.t support|does not accept|only support|only (?:be )?set|requires"
    r"|only .{1,60} (?:is|are) (?:supported|allowed)"
)
_REASONING = re.compile(
    r"(?:invalid|corrupt\w*) .{0,20}signature|signature\b.{0,20}(?:invalid|not valid)"
    r"|encrypted.content.{0,5000}could not be (?:verified|decrypted)|invalid_encrypted_content"
    r"|bound to a different|blocks? in the latest assistant message cannot be modified"
    r"|without its required|items are not persisted|expected an id that begins with"
    r"|cannot determine type of 'item'"
)
"""What servers say of opaque data that they can't read, or of items that are no longer together."""
_ACCOUNT = (LLMErrorKind.AUTH, LLMErrorKind.AUTH_PERMANENT, LLMErrorKind.CONTENT_POLICY)
"""Refusals of somebody or of what is said, not of a request's form."""
_MISSING = re.compile(
    r"(?P<a>[a-z_]*reason[a-z_]*)[`'\" ].{0,80}(?:passed back|missing|required)"
    r"|missing [`'\"]?(?P<b>[a-z_]*reason[a-z_]*)"
)
_NO_CONTENT = re.compile(
    r"\bcontent\b.{0,40}(?:field required|is required|is missing|must be a string|got null"
    r"|valid string|<nil>|not be (?:null|empty|none))|missing.{0,20}\bcontent\b"
)
_IMAGES = re.compile(r"\bimages?\b|image_url|input_image|multi-?modal|\bvision\b|mmproj")
_BLIND = re.compile(
    r"support (?:the |any )?(?:image|vision|multi)"
    r"|(?:image|vision)\w*\b.{0,40}(?:not|un|only) ?support"
    r"|not a multi|at most 0 image|unknown variant|unsupported content|mmproj|no vision"
)
_BAD_IMAGE = re.compile(r"dimension|format|media.?type|decode|corrupt|download|fetch|base64")
_TOOLS = re.compile(
    r"(?:not|n.t|that) (?:support|have|enabl)\w* (?:for )?(?:tool|function)|tools? (?:is|are) not"
    r"|(?:tool|function)[ -](?:use|call\w*|choice)\b.{0,40}"
    r"(?:not (?:support|enabl|avail|allow)|unsupported|requires --)"
    r"|\btools param|(?:param\w*|arguments?)(?: supplied)?:? (?:\w+, )*[`'\"]?tools\b"
    r"|(?:^|\s)tools: extra"
)
_REASONS = re.compile(
    r"effort|summar|support (?:thinking|reasoning)|reasoning is (?:mandatory|required|not)"
    r"|only works in thinking mode"
)
_NINE = re.compile(r"tool.?call.? id.{0,80}length of 9")
_ID_FORM = re.compile(r"(?:tool_use|call|tool_call).{0,40}\bid\b.{0,60}pattern")
_ORDER = re.compile(r"role '?\"?user'?\"? after role '?\"?tool|roles must alternate")
_ROLE = re.compile(
    r"role.{0,40}\b(system|developer)\b|\b(system|developer)\b.{0,20}(?:role|message|instruction)"
    r"|roles must alternate|only user\b.{0,20} roles"
)
_NEVER_LEFT_OUT = frozenset({"type", "properties", "items", "required", "description"})
"""Keywords without which a schema says nothing."""
_GEMINI_STAND_IN = {
    "extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}
}

_ROOM = "room"


@dataclass(frozen=True)
class Remedy:
    """How to send a refused request again. `cause` is a stable name; `told` is for the user."""

    cause: str
    told: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Of the endpoint's traits, from now on."""
    drops: Literal["", "reasoning", "images"] = ""
    """What all messages so far go without."""
    most_output_tokens: int = 0
    """The cap for this request; 0: as it is."""

    @property
    def room_tokens(self) -> int:
        """What the window has room for beside the prompt; 0 if that was not the cause."""
        return self.most_output_tokens if self.cause == _ROOM else 0

    def applied(self, request: Request) -> Request:
        """Return `request` with what concerns it alone."""
        if self.most_output_tokens:
            request = replace(request, max_output_tokens=self.most_output_tokens)
        if self.drops:
            request = replace(request, messages=[without(self.drops, m) for m in request.messages])
        return request


@dataclass(frozen=True)
class _Refusal:
    """A refused request, and what the server said."""

    words: str
    traits: Traits
    members: Mapping[str, Any]
    request: Request

    @property
    def refuses(self) -> bool:
        return bool(re.search(_REFUSED, self.words))

    def names(self, member: str) -> bool:
        """Whether the server's words name a member of the request. A plain word counts only where
        it stands as a name."""
        name = re.escape(member)
        if "_" in member:
            return bool(re.search(rf"(?<![\w]){name}(?!\w)", self.words))
        quoted = (
            rf"[`'\"](?:[\w.\[\]]+\.)?{name}[`'\"]|(?:^|[\s.,\[\"']){name}(?:\.[\w.]+)?(?:: |=)"
        )
        known = rf"(?:parameters?|arguments?|fields?|members?|propert\w+)(?: supplied)?:? {name}\b"
        return bool(re.search(f"{quoted}|{known}", self.words))


def find_remedy(
    error: LLMError, traits: Traits, members: Mapping[str, Any], request: Request
) -> Remedy | None:
    """Return what to change after `error`, where `members` are those of the refused body other than
    the conversation; None if the server's words name no cause that can be left out."""
    refusal = _Refusal(_plain_words(error.said), traits, members, request)
    if remedy := _cache_marks(refusal):
        return remedy
    if error.kind in _ACCOUNT:
        return None
    # Gateways report this under any status.
    if _REASONING.search(refusal.words):
        return _opaque_reasoning(refusal)
    if error.status not in _STATUSES:
        return None
    if error.kind in (LLMErrorKind.CONTEXT_OVERFLOW, LLMErrorKind.BILLING):
        return _output_cap(refusal)
    found = (rule(refusal) for rule in _RULES)
    return next((remedy for remedy in found if remedy is not None), None)


def _plain_words(said: str) -> str:
    """Return what a server says in lower case, with the names that it writes in camel case also as
    members are called here, and with bounds that are within the range."""
    camel = re.findall(r"\b[a-z]+[A-Z]\w*", said)
    names = (re.sub(r"(?=[A-Z])", "_", name) for name in camel)
    said = re.sub(r"(\d+) \(exclusive\)", lambda bound: str(int(bound[1]) - 1), said)
    return " ".join([said, *names]).lower()


def _opaque_reasoning(refusal: _Refusal) -> Remedy | None:
    """Signatures and encrypted reasoning are refused after a change of account, or of what stood
    before them."""
    if not any(message.provider_data for message in refusal.request.messages):
        return None
    told = "the server can't verify earlier reasoning; going on without it"
    return Remedy("reasoning", told, drops="reasoning")


def _signature(refusal: _Refusal) -> Remedy | None:
    words = refusal.words
    if "missing" not in words or "thought_signature" not in words or refusal.traits.stand_in:
        return None
    told = "calls of other models are marked as such from now on"
    return Remedy("thought_signature", told, {"stand_in": _GEMINI_STAND_IN})


def _required_member(refusal: _Refusal) -> Remedy | None:
    missing = _MISSING.search(refusal.words)
    name = missing and (missing["a"] or missing["b"])
    # Some take an empty text for a missing one, but not a blank.
    value = " "
    if not name and _NO_CONTENT.search(refusal.words):
        messages = refusal.request.messages
        is_sent = any(m.tool_calls and not m.content for m in messages)
        name, value = ("content" if is_sent else ""), ""
    if not name or name in refusal.members or name.endswith("effort"):
        return None
    filled = {**refusal.traits.filled, name: value}
    told = f"each message of the model has {name} from now on, as the server requires"
    return Remedy(f"filled {name}", told, {"filled": filled})


def _output_cap(refusal: _Refusal) -> Remedy | None:
    """The cap is named otherwise, too large for the model, for the window beside the prompt, or for
    what the account can pay."""
    words, member = refusal.words, _cap_member(refusal.members)
    sent = refusal.members.get(member)
    afford = re.search(r"can only afford (\d[\d,]*)", words)
    about_it = any(limit in words for limit in _LIMITS) or re.search(
        "output tokens|new_tokens|complet", words
    )
    if not isinstance(sent, int) or not (afford or about_it):
        return None
    other = _OTHER_LIMIT.get(member, "")
    asks_other = re.search(rf"(?:use|instead|did you mean).{{0,30}}{other}", words)
    if other and refusal.names(member) and (asks_other or re.search(_EXTRA, words)):
        told = f"the server takes {other} instead of {member}"
        return Remedy(f"cap as {other}", told, {"output_limit": other})
    numbers = [int(n.replace(",", "")) for n in _NUMBER.findall(words)]
    if afford:
        most = int(int(afford[1].replace(",", "")) * _PAYS_FOR)
        told = (
            f"the account can pay for a reply of {most:,} tokens (max_tokens); asking for no more"
        )
        return Remedy("affordable", told, most_output_tokens=most) if most > 0 else None
    if room := _room(words, sent, numbers):
        told = f"only {room:,} tokens fit beside the prompt; asking for no more"
        return Remedy(_ROOM, told, most_output_tokens=room)
    smaller = [n for n in numbers if _LEAST_TOKENS <= n < sent]
    if not smaller or ("context" in words and "less than or equal" not in words):
        return None
    told = f"replies are limited to {max(smaller):,} tokens, the model's most"
    return Remedy("most output", told, {"most_output_tokens": max(smaller)})


def _cap_member(members: Mapping[str, Any]) -> str:
    return next((limit for limit in _LIMITS if limit in members), "")


def _room(words: str, sent: int, numbers: Iterable[int]) -> int:
    """Return how many tokens fit into the window beside the prompt; 0 if the words don't say so, or
    too few do."""
    window = re.search(r"(?:>|must be <=) (\d[\d,]*)", words) or re.search(
        r"context (?:length|window|limit|size)\D{0,40}(\d[\d,]*)", words
    )
    if window is None or sent not in numbers:
        return 0
    total = int(window[1].replace(",", ""))
    prompts = [n for n in numbers if n not in (sent, total) and n < total and n + sent > total]
    room = total - max(prompts) if prompts else 0
    return room if room >= _LEAST_TOKENS else 0


def _effort(refusal: _Refusal) -> Remedy | None:
    """How much to reason is told in another form, in fewer levels, or not at all."""
    words, traits = refusal.words, refusal.traits
    tellers = {n: v for n, v in refusal.members.items() if n in _TELLERS}
    named = [n for n in tellers if refusal.names(n) or f"{n}." in words]
    kind = (tellers.get("thinking") or {}).get("type")
    usable = _usable_levels(refusal)
    if kind == "adaptive" and "display" in words:
        told, plain = "what the model thinks is not shown here", {"thinking": {"type": "adaptive"}}
        efforts = {
            n: {**v, **plain} for n, v in (traits.efforts or ADAPTIVE).items() if n != "none"
        }
        return Remedy("display", told, {"efforts": efforts, "always": plain})
    if kind == "adaptive" and re.search(r"adaptive.{0,40}not|expected.{0,40}enabled", words):
        told = "how much the model thinks is told by a number of tokens"
        return Remedy("thinking budget", told, {"efforts": BUDGETS, "always": {}})
    if not tellers or not (named or usable or _REASONS.search(words)):
        return None
    if refusal.request.effort == "none" and not usable:
        usable = [n for n in traits.efforts or ("low", "medium", "high") if n != "none"]
    if "summar" in words and "reasoning" in tellers:
        told = "what the model reasons is not shown to this account"
        shown = {n: {"reasoning": {"effort": n}} for n in traits.efforts or LEVELS}
        return Remedy("summary", told, {"efforts": shown})
    if kind == "enabled" and "adaptive" in words:
        told = "the model decides itself how much it thinks; told by output_config.effort"
        return Remedy("adaptive thinking", told, {"efforts": ADAPTIVE, "always": {}})
    if "set reasoning_effort to 'none'" in words:
        told = "with tools the model does not reason here; through Responses it does"
        always = {**traits.always, "reasoning_effort": "none"}
        return Remedy("no effort with tools", told, {"always": always, "efforts": {}})
    if usable and traits.efforts != {} and set(usable) != set(traits.efforts or ()):
        kept = {n: (traits.efforts or {n: _like(refusal, tellers, n)})[n] for n in usable}
        told = f"the model knows these levels of effort: {', '.join(usable)}"
        return Remedy(f"effort {' '.join(usable)}", told, {"efforts": kept})
    always = {n: v for n, v in traits.always.items() if n not in named}
    told = "how much to reason can't be told to this model"
    return Remedy("effort", told, {"efforts": {}, "always": always})


def _usable_levels(refusal: _Refusal) -> list[str]:
    """Return the levels that the server offers in place of the one that was sent; none if it is not
    about levels."""
    wanted, table, words = refusal.request.effort, refusal.traits.efforts, refusal.words
    sent = nearest_level(wanted, table) if wanted and table else wanted
    if not sent or not ("effort" in words or re.search(rf"[`'\"]{sent}[`'\"]", words)):
        return []
    offered = (n for n in LEVELS if re.search(rf"[`'\"\s,\[(]{n}(?:[`'\",\])\s.]|$)", words))
    return [n for n in offered if n not in (sent, wanted) and (not table or n in table)]


def _like(refusal: _Refusal, tellers: Mapping[str, Any], level: str) -> Mapping[str, Any]:
    """Return the members of the refused body that told the effort, with another level."""
    sent = refusal.request.effort
    return {
        name: {k: level if v == sent else v for k, v in value.items()}
        if isinstance(value, Mapping)
        else level
        for name, value in tellers.items()
    }


def _forced_tools(refusal: _Refusal) -> Remedy | None:
    if refusal.request.tool_choice is not ToolChoice.REQUIRED:
        return None
    if "tool_choice" not in refusal.members or not re.search(r"tool.?choice", refusal.words):
        return None
    told = "the model can't be made to call a tool; it is asked to"
    return Remedy("tool_choice", told, {"forced_tools": False})


def _images(refusal: _Refusal) -> Remedy | None:
    messages = [m for m in refusal.request.messages if m.image_urls]
    if not messages or not _IMAGES.search(refusal.words):
        return None
    in_results = re.search(r"tool.?result|function_call_output|role.{0,6}tool", refusal.words)
    if in_results and refusal.traits.images == "anywhere":
        told = "the model takes no images in results of tools; going on without them"
        return Remedy("images in results", told, {"images": "messages"})
    if _BLIND.search(refusal.words) and not _BAD_IMAGE.search(refusal.words):
        told = "the model takes no images; going on without them"
        return Remedy("images", told, {"images": "none"})
    told = "the server refuses an image of this conversation; going on without them"
    return Remedy("an image", told, drops="images")


def _cache_marks(refusal: _Refusal) -> Remedy | None:
    named = refusal.names("cache_control") or "prompt caching" in refusal.words
    if not named or not refusal.traits.cache_marks:
        return None
    return Remedy("cache_control", "nothing is marked to be cached", {"cache_marks": False})


def _tools(refusal: _Refusal) -> Remedy | None:
    if not refusal.request.tools or not _TOOLS.search(refusal.words):
        return None
    told = (
        "the server takes no tools for this model, so they are described in the text "
        '(tool_format = "text"); expect less of it'
    )
    return Remedy("tools", told, {"tools": "text"})


def _ids(refusal: _Refusal) -> Remedy | None:
    if _NINE.search(refusal.words):
        told = "ids of calls have nine letters and digits here"
        return Remedy("short ids", told, {"short_ids": True})
    if _ID_FORM.search(refusal.words):
        return Remedy("plain ids", "ids of calls are made plain", {"plain_ids": True})
    return None


def _order(refusal: _Refusal) -> Remedy | None:
    if not _ORDER.search(refusal.words) or not refusal.traits.user_after_tool:
        return None
    told = "a short answer stands between a tool's result and the user's message here"
    return Remedy("user after tool", told, {"user_after_tool": False})


def _system_role(refusal: _Refusal) -> Remedy | None:
    if not _ROLE.search(refusal.words) or not refusal.refuses:
        return None
    sent = refusal.traits.system_role
    if sent == "user" or not ("role" in refusal.words or "instruction" in refusal.words):
        return None
    asks = re.search("(?:use|instead).{0,30}developer|developer.{0,30}instead", refusal.words)
    role = "system" if sent == "developer" else "developer" if asks else "user"
    told = f"the instructions are sent as the {role}'s message here"
    return Remedy(f"instructions as {role}", told, {"system_role": role})


def _schema(refusal: _Refusal) -> Remedy | None:
    """A keyword of a tool's schema is named, or schemas as such."""
    tools = refusal.request.tools
    about = r"schema|function_declarations|parameters|tools|grammar"
    if not tools or not re.search(about, refusal.words):
        return None
    keywords = {
        word for tool in tools for word in _keywords(plain(tool.parameters))
    } - _NEVER_LEFT_OUT
    known = set(refusal.traits.unwanted_keywords)
    named = sorted(w for w in keywords - known if refusal.names(w.lower()) and refusal.refuses)
    if named:
        told = f"tools are described without {', '.join(named)} here"
        return Remedy(f"schema {' '.join(named)}", told, {"unwanted_keywords": [*known, *named]})
    if re.search(r"schema|grammar", refusal.words) and refusal.traits.schema != "gemini":
        told = "tools are described in the simplest form of schema here"
        return Remedy("simple schema", told, {"schema": "gemini"})
    return None


def _keywords(schema: Schema) -> Iterable[str]:
    yield from schema
    for part in parts(schema):
        yield from _keywords(part)


def _member(refusal: _Refusal) -> Remedy | None:
    """A member of the body, or of the model's own messages, is named that can be left out."""
    if not refusal.refuses:
        return None
    for name in sorted(refusal.members.keys() - _NEEDED, key=len, reverse=True):
        if refusal.names(name):
            unwanted = [*refusal.traits.unwanted, name]
            return Remedy(name, f"{name} is left out for this model", {"unwanted": unwanted})
    returned = {
        name
        for message in refusal.request.messages
        if message.provider_data is not None
        for item in message.provider_data.items
        for name in (*item, str(item.get("type", "")))
    }
    for name in sorted(
        returned - {"", "type", "content", "tool_calls", *refusal.traits.not_returned}
    ):
        if refusal.names(name):
            dropped = [*refusal.traits.not_returned, name]
            return Remedy(f"returned {name}", f"{name} is not sent back", {"not_returned": dropped})
    return None


_RULES: tuple[Callable[[_Refusal], Remedy | None], ...] = (
    _signature,
    _required_member,
    _ids,
    _order,
    _images,
    _output_cap,
    _forced_tools,
    _effort,
    _tools,
    _member,
    _system_role,
    _schema,
)
"""In the order in which they are asked: what names something particular first."""
