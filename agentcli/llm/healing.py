"""What to leave out of a request, or send in another form, after a refusal that names its cause.

Tables in the files of providers say what is known beforehand; this covers what is not. A cause is
recognised by what the request contains and the server's words name, whatever the server is. Each
cause is remedied once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agentcli.errors import LLMError, LLMErrorKind
from agentcli.llm.provider import ADAPTIVE, BUDGETS, GEMINI_STAND_IN, LEVELS, Traits, nearest_level
from agentcli.messages import Request, ToolChoice, without
from agentcli.plain_json import Schema, parts, plain

_NEEDED = frozenset(
    {"model", "messages", "input", "stream", "tools", "system", "instructions", "max_tokens"}
)
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_TELLERS = ("thinking", "output_config", "reasoning_effort", "reasoning")
"""Members that tell how much to reason."""
_EXTRA = r"unrecogni|unknown|unsupported|not support|extra (?:inputs|fields)|not permitted"
_LEAST_TOKENS = 256
_NUMBER = re.compile(r"(?<![\w.<-])\d[\d,]*(?![\w.,-]*[a-z\d])")

_REFUSED = (
    r"not? support|unsupported|not? allowed|not? permitted|unrecogni|unknown|unexpected|invalid"
    r"|extra (?:inputs|fields)|deprecated|cannot be|can't be|must not|no endpoints|not available"
    r"|not enabled|n.t support|does not accept|only support|only (?:be )?set|requires"
    r"|only .{1,60} (?:is|are) (?:supported|allowed)"
)
_REASONING = (
    r"(?:invalid|corrupt\w*) .{0,20}signature|signature\b.{0,20}(?:invalid|not valid)"
    r"|encrypted.content.{0,5000}could not be (?:verified|decrypted)|invalid_encrypted_content"
    r"|bound to a different|blocks? in the latest assistant message cannot be modified"
    r"|without its required|items are not persisted|expected an id that begins with"
    r"|cannot determine type of 'item'|(?<!_)signature\b.{0,40}(?:required|string|fail|expired)"
    r"|blocks must match the parameters|redacted_thinking.? block|decrypt|duplicate item"
    r"|input\[\d+\]\.summary|encrypted.content.{0,40}did not match|item with id\b.{0,80}not found"
)
"""What servers say of opaque data that they can't read, or of items that are no longer together."""
_MISSING = (
    r"(?P<a>[a-z_]*reason[a-z_]*)[`'\" ].{0,80}(?:passed back|missing|required)"
    r"|missing [`'\"]?(?P<b>[a-z_]*reason[a-z_]*)"
)
_NO_CONTENT = (
    r"\bcontent\b.{0,40}(?:field required|is required|is missing|must be a string|got null"
    r"|valid string|<nil>|not be (?:null|empty|none))|missing.{0,20}\bcontent\b"
)
_ONLY_TEXT = r"only '?text|(?:content\b.{0,30}|expected) (?:a|be a|valid) string"
"""What servers say of images without naming them: without any, content is sent as a string."""
_ABOUT_IMAGES = (
    r"\bimages?\b|image_url|input_image|multi-?modal|\bvision\b|mmproj|provided url"
    rf"|{_ONLY_TEXT}"
)
_IN_RESULTS = r"tool.?result|function_call_output|role.{0,6}tool"
_BLIND = (
    r"support (?:the |any )?(?:image|vision|multi)"
    r"|(?:image|vision)\w*\b.{0,40}(?:not|un|only) ?support"
    rf"|{_ONLY_TEXT}"
    r"|not a multi|at most 0 image|unknown variant|unsupported content|mmproj|no vision"
)
_BAD_IMAGE = r"dimension|format|media.?type|decode|corrupt|download|fetch|base64"
_NO_TOOLS = (
    r"(?:not|n.t|that) (?:support|have|enabl)\w* (?:for )?(?:tool|function)|tools? (?:is|are) not"
    r"|(?:tool|function)[ -](?:use|call\w*|choice)\b.{0,40}"
    r"(?:not (?:support|enabl|avail|allow)|unsupported|requires --)"
    r"|\btools param|(?:param\w*|arguments?)(?: supplied)?:? (?:\w+, )*[`'\"]?tools\b"
    r"|(?:^|\s)tools: extra"
)
_REASONS = (
    r"effort|summar|support (?:thinking|reasoning)|reasoning is (?:mandatory|required|not)"
    r"|only works in thinking mode"
)
_ROLE = (
    r"role.{0,40}\b(system|developer)\b|\b(system|developer)\b.{0,20}(?:role|message|instruction)"
    r"|roles must alternate|only user\b.{0,20} roles"
)


@dataclass(frozen=True)
class Remedy:
    """How to send a refused request again. `cause` is a stable name; `message` is for the user."""

    cause: str
    message: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Of the endpoint's traits, from now on."""
    drops: Literal["", "reasoning", "images"] = ""
    """What all messages so far go without."""
    most_output_tokens: int = 0
    """The cap for this request; 0: as it is."""

    @property
    def room_tokens(self) -> int:
        """What the window has room for beside the prompt; 0 if that was not the cause."""
        return self.most_output_tokens if self.cause == "room" else 0

    def changes_something(self, traits: Traits) -> bool:
        return bool(self.drops or self.most_output_tokens) or (
            traits.with_changes(self.changes) != traits
        )

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

    def says(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, self.words)

    @property
    def refuses(self) -> bool:
        return bool(self.says(_REFUSED))

    def names(self, member: str) -> bool:
        """Whether the server's words name a member of the request. A plain word counts only where
        it stands as a name."""
        name = re.escape(member)
        if "_" in member:
            return bool(self.says(rf"(?<![\w]){name}(?!\w)"))
        quoted = (
            rf"[`'\"](?:[\w.\[\]]+\.)?{name}[`'\"]|(?:^|[\s.,\[\"']){name}(?:\.[\w.]+)?(?:: |=)"
        )
        known = rf"(?:parameters?|arguments?|fields?|members?|propert\w+)(?: supplied)?:? {name}\b"
        return bool(self.says(f"{quoted}|{known}"))


def find_remedy(
    error: LLMError, traits: Traits, members: Mapping[str, Any], request: Request
) -> Remedy | None:
    """Return what to change after `error`, where `members` are those of the refused body other than
    the conversation; None if the server's words name no cause that can be left out."""
    refusal = _Refusal(_plain_words(error.said), traits, members, request)
    found = (remedy for rule in _rules(error, refusal) for remedy in rule(refusal))
    return next((each for each in found if each.changes_something(traits)), None)


def _rules(error: LLMError, refusal: _Refusal) -> Iterator[_Rule]:
    yield _cache_marks
    # These refuse somebody or what is said, not a request's form.
    account = (LLMErrorKind.AUTH, LLMErrorKind.AUTH_PERMANENT, LLMErrorKind.CONTENT_POLICY)
    if error.kind in account:
        return
    # Gateways report this under any status.
    if refusal.says(_REASONING):
        yield _opaque_reasoning
    elif error.status in (400, 402, 404, 413, 415, 422, 500, 501):
        is_size = error.kind in (LLMErrorKind.CONTEXT_OVERFLOW, LLMErrorKind.BILLING)
        yield from (_output_cap,) if is_size else _RULES
        # What is named where it is refused in any other words.
        if not is_size and refusal.says(r"thinking blocks?\b|encrypted_content|reasoning items?"):
            yield _opaque_reasoning


def _plain_words(said: str) -> str:
    """Return what a server says in lower case, with the names that it writes in camel case also as
    members are called here, and with bounds that are within the range."""
    camel = re.findall(r"\b[a-z]+[A-Z]\w*", said)
    names = (re.sub(r"(?=[A-Z])", "_", name) for name in camel)
    said = re.sub(r"(\d+) \(exclusive\)", lambda bound: str(int(bound[1]) - 1), said)
    return " ".join([said, *names]).lower()


def _opaque_reasoning(refusal: _Refusal) -> Iterator[Remedy]:
    """Signatures and encrypted reasoning are refused after a change of account, or of what stood
    before them."""
    if any(message.provider_data for message in refusal.request.messages):
        message = "the server can't verify earlier reasoning; going on without it"
        yield Remedy("reasoning", message, drops="reasoning")


def _messages(refusal: _Refusal) -> Iterator[Remedy]:
    """Messages lack something, or stand in an order or have ids that the server does not take."""
    if "missing" in refusal.words and "thought_signature" in refusal.words:
        message = "calls of other models are marked as such from now on"
        yield Remedy("thought_signature", message, {"stand_in": GEMINI_STAND_IN})
    missing = refusal.says(_MISSING)
    name = missing and (missing["a"] or missing["b"])
    # Some take an empty text for a missing one, but not a blank.
    value = " "
    if not name and refusal.says(_NO_CONTENT):
        is_sent = any(m.tool_calls and not m.content for m in refusal.request.messages)
        name, value = ("content" if is_sent else ""), ""
    is_filled = refusal.traits.filled.get(name or "") == value
    if name and not is_filled and name not in refusal.members and not name.endswith("effort"):
        message = f"each message of the model has {name} from now on, as the server requires"
        yield Remedy(f"filled {name}", message, {"filled": {**refusal.traits.filled, name: value}})
    if refusal.says(r"tool.?call.? id.{0,80}length of 9"):
        message = "ids of calls have nine letters and digits here"
        yield Remedy("short ids", message, {"short_ids": True})
    if refusal.says(r"(?:tool_use|call|tool_call).{0,40}\bid\b.{0,60}pattern"):
        yield Remedy("plain ids", "ids of calls are made plain", {"plain_ids": True})
    if refusal.says(r"role '?\"?user'?\"? after role '?\"?tool|roles must alternate"):
        message = "a short answer stands between a tool's result and the user's message here"
        yield Remedy("user after tool", message, {"user_after_tool": False})


def _images(refusal: _Refusal) -> Iterator[Remedy]:
    if not refusal.request.has_images or not refusal.says(_ABOUT_IMAGES):
        return
    if refusal.says(_IN_RESULTS) and refusal.traits.images == "anywhere":
        message = "the model takes no images in results of tools; going on without them"
        yield Remedy("images in results", message, {"images": "messages"})
    if refusal.says(_BLIND) and not refusal.says(_BAD_IMAGE):
        message = "the model takes no images; going on without them"
        yield Remedy("images", message, {"images": "none"})
    message = "the server refuses an image of this conversation; going on without them"
    yield Remedy("an image", message, drops="images")


def _output_cap(refusal: _Refusal) -> Iterator[Remedy]:
    """The cap is named otherwise, too large for the model, for the window beside the prompt, or for
    what the account can pay."""
    words = refusal.words
    member = next((limit for limit in _LIMITS if limit in refusal.members), "")
    sent = refusal.members.get(member)
    afford = refusal.says(r"can only afford (\d[\d,]*)")
    about_it = refusal.says("|".join(_LIMITS) + "|output tokens|new_tokens|complet")
    if not isinstance(sent, int) or not (afford or about_it):
        return
    other = {_LIMITS[0]: _LIMITS[1], _LIMITS[1]: _LIMITS[0]}.get(member, "")
    asks_other = refusal.says(rf"(?:use|instead|did you mean).{{0,30}}{other}")
    if other and refusal.names(member) and (asks_other or refusal.says(_EXTRA)):
        message = f"the server takes {other} instead of {member}"
        yield Remedy(f"cap as {other}", message, {"output_limit": other})
    numbers = [_number(each) for each in _NUMBER.findall(words)]
    smaller = [n for n in numbers if _LEAST_TOKENS <= n < sent]
    # The number of tokens that an account can pay for is an estimate.
    if afford and (most := int(_number(afford[1]) * 0.95)):
        message = f"the account can pay for a reply of {most:,} tokens (max_tokens)"
        yield Remedy("affordable", f"{message}; asking for no more", most_output_tokens=most)
    elif room := _room(refusal, sent, numbers):
        message = f"only {room:,} tokens fit beside the prompt; asking for no more"
        yield Remedy("room", message, most_output_tokens=room)
    elif smaller and ("context" not in words or "less than or equal" in words):
        message = f"replies are limited to {max(smaller):,} tokens, the model's most"
        yield Remedy("most output", message, {"most_output_tokens": max(smaller)})


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))


def _room(refusal: _Refusal, sent: int, numbers: Sequence[int]) -> int:
    """Return how many tokens fit into the window beside the prompt; 0 if the words don't say so, or
    too few do."""
    window = refusal.says(r"(?:>|must be <=) (\d[\d,]*)") or refusal.says(
        r"context (?:length|window|limit|size)\D{0,40}(\d[\d,]*)"
    )
    if window is None or sent not in numbers:
        return 0
    total = _number(window[1])
    prompts = [n for n in numbers if n not in (sent, total) and n < total and n + sent > total]
    room = total - max(prompts) if prompts else 0
    return room if room >= _LEAST_TOKENS else 0


def _effort(refusal: _Refusal) -> Iterator[Remedy]:
    """How much to reason is told in another form, in fewer levels, or not at all."""
    words, traits = refusal.words, refusal.traits
    tellers = {n: v for n, v in refusal.members.items() if n in _TELLERS}
    named = [n for n in tellers if refusal.names(n) or f"{n}." in words]
    kind = (tellers.get("thinking") or {}).get("type")
    usable = _usable_levels(refusal)
    if kind == "adaptive" and "display" in words:
        plain_form = {"thinking": {"type": "adaptive"}}
        efforts = {
            n: {**v, **plain_form} for n, v in (traits.efforts or ADAPTIVE).items() if n != "none"
        }
        message = "what the model thinks is not shown here"
        yield Remedy("display", message, {"efforts": efforts, "always": plain_form})
    if kind == "adaptive" and refusal.says(r"adaptive.{0,40}not|expected.{0,40}enabled"):
        message = "how much the model thinks is told by a number of tokens"
        yield Remedy("thinking budget", message, {"efforts": BUDGETS, "always": {}})
    if not tellers or not (named or usable or refusal.says(_REASONS)):
        return
    if refusal.request.effort == "none" and not usable:
        usable = [n for n in traits.efforts or ("low", "medium", "high") if n != "none"]
    if "summar" in words and "reasoning" in tellers:
        message = "what the model reasons is not shown to this account"
        shown = {n: {"reasoning": {"effort": n}} for n in traits.efforts or LEVELS}
        yield Remedy("summary", message, {"efforts": shown})
    if kind == "enabled" and "adaptive" in words:
        message = "the model decides itself how much it thinks; told by output_config.effort"
        yield Remedy("adaptive thinking", message, {"efforts": ADAPTIVE, "always": {}})
    if "set reasoning_effort to 'none'" in words:
        message = "with tools the model does not reason here; through Responses it does"
        always = {**traits.always, "reasoning_effort": "none"}
        yield Remedy("no effort with tools", message, {"always": always, "efforts": {}})
    if usable and traits.efforts != {}:
        kept = {n: (traits.efforts or {n: _like(refusal, tellers, n)})[n] for n in usable}
        message = f"the model knows these levels of effort: {', '.join(usable)}"
        yield Remedy(f"effort {' '.join(usable)}", message, {"efforts": kept})
    always = {n: v for n, v in traits.always.items() if n not in named}
    message = "how much to reason can't be told to this model"
    yield Remedy("effort", message, {"efforts": {}, "always": always})


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


def _tools(refusal: _Refusal) -> Iterator[Remedy]:
    if refusal.request.tools and refusal.says(_NO_TOOLS):
        message = (
            "the server takes no tools for this model, so they are described in the text "
            '(tool_format = "text"); expect less of it'
        )
        yield Remedy("tools", message, {"tools": "text"})


def _tool_choice(refusal: _Refusal) -> Iterator[Remedy]:
    is_forced = refusal.request.tool_choice is ToolChoice.REQUIRED
    if is_forced and "tool_choice" in refusal.members and refusal.says(r"tool.?choice"):
        message = "the model can't be made to call a tool; it is asked to"
        yield Remedy("tool_choice", message, {"forced_tools": False})


def _cache_marks(refusal: _Refusal) -> Iterator[Remedy]:
    if refusal.names("cache_control") or "prompt caching" in refusal.words:
        yield Remedy("cache_control", "nothing is marked to be cached", {"cache_marks": False})


def _system_role(refusal: _Refusal) -> Iterator[Remedy]:
    sent = refusal.traits.system_role
    is_about_it = "role" in refusal.words or "instruction" in refusal.words
    if sent != "user" and is_about_it and refusal.says(_ROLE) and refusal.refuses:
        asks = refusal.says("(?:use|instead).{0,30}developer|developer.{0,30}instead")
        role = "system" if sent == "developer" else "developer" if asks else "user"
        message = f"the instructions are sent as the {role}'s message here"
        yield Remedy(f"instructions as {role}", message, {"system_role": role})


def _schema(refusal: _Refusal) -> Iterator[Remedy]:
    """A keyword of a tool's schema is named, or schemas as such."""
    tools, traits = refusal.request.tools, refusal.traits
    if not tools or not refusal.says("schema|function_declarations|parameters|tools|grammar"):
        return
    keywords = {word for tool in tools for word in _keywords(plain(tool.parameters))}
    # Without the first five, a schema says nothing.
    keywords -= {"type", "properties", "items", "required", "description"}
    keywords -= set(traits.unwanted_keywords)
    named = sorted(word for word in keywords if refusal.names(word.lower()) and refusal.refuses)
    if named:
        message = f"tools are described without {', '.join(named)} here"
        unwanted = [*traits.unwanted_keywords, *named]
        yield Remedy(f"schema {' '.join(named)}", message, {"unwanted_keywords": unwanted})
    # A grammar of the user's own has nothing to do with tools' schemas.
    elif refusal.says("schema|(?<!custom )grammar"):
        message = "tools are described in the simplest form of schema here"
        yield Remedy("simple schema", message, {"schema": "gemini"})


def _keywords(schema: Schema) -> Iterable[str]:
    yield from schema
    for part in parts(schema):
        yield from _keywords(part)


def _member(refusal: _Refusal) -> Iterator[Remedy]:
    """A member of the body, or of the model's own messages, is named that can be left out."""
    if not refusal.refuses:
        return
    traits = refusal.traits
    for name in sorted(refusal.members.keys() - _NEEDED, key=len, reverse=True):
        if refusal.names(name):
            unwanted = [*traits.unwanted, name]
            yield Remedy(name, f"{name} is left out for this model", {"unwanted": unwanted})
    returned = {
        name
        for message in refusal.request.messages
        if message.provider_data is not None
        for item in message.provider_data.items
        for part in (item, *item.get("tool_calls", ()))
        for name in (*part, str(part.get("type", "")))
    }
    for name in sorted(returned - {"", "type", "content", "tool_calls", *traits.not_returned}):
        if refusal.names(name):
            dropped = [*traits.not_returned, name]
            yield Remedy(f"returned {name}", f"{name} is not sent back", {"not_returned": dropped})


_Rule = Callable[[_Refusal], Iterator[Remedy]]
_RULES: Sequence[_Rule] = (
    _messages,
    _images,
    _output_cap,
    _tool_choice,
    _effort,
    _tools,
    _member,
    _system_role,
    _schema,
)
"""In the order in which they are asked: what names something particular first."""
