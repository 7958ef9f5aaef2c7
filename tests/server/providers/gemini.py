"""Google's OpenAI-compatible endpoint.

https://ai.google.dev/gemini-api/docs/openai, https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

from collections.abc import Iterator

from ..chat_answer import Style
from ..checks import mapping
from ..schemas import gemini_schema
from ..wire import new_id, seal, unseal
from .provider import Asked, Provider, levels, rule

_SIGNATURES = "https://ai.google.dev/gemini-api/docs/thought-signatures"
_OURS = ["thought"]
"""What signatures are made of here."""
_DUMMIES = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""Signatures that Google documents for calls which another model made."""


@rule(_SIGNATURES, models=r"gemini-[3-9]")
def _signatures(asked: Asked) -> Iterator[str]:
    """The first call of each reply has the signature that came with it, or one of the dummies."""
    for index, reply in asked.replies:
        for call in (reply.get("tool_calls") or [])[:1]:
            google = (call.get("extra_content") or {}).get("google") or {}
            signature, name = google.get("thought_signature"), call["function"]["name"]
            if not signature:
                yield (
                    "Function call is missing a thought_signature in functionCall parts. This is "
                    "required for tools to work correctly, and missing thought_signature may lead "
                    "to degraded model performance. Additional data, function call "
                    f"`default_api:{name}` , position {index}. Please refer to "
                    "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
                )
            elif signature not in _DUMMIES and unseal(signature) != _OURS:
                yield "Corrupted thought signature."


@rule("https://github.com/zed-industries/zed/issues/44875")
def _schemas(asked: Asked) -> Iterator[str]:
    for index, tool in enumerate(asked.body.get("tools") or []):
        place = f"tools[0].function_declarations[{index}].parameters"
        yield from gemini_schema(tool["function"].get("parameters") or {}, place)


def _error(status: int, kind: str, message: str) -> object:
    """A list: https://github.com/intellij-copilot/copilot-intellij/issues/1381."""
    names = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED",
             404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}  # fmt: skip
    named = names.get(status, "INTERNAL" if status >= 500 else "FAILED_PRECONDITION")
    words = {"type": kind} if kind else {}
    return [{"error": {"code": status, "message": message, "status": named} | words}]


_SAYS = "Invalid value at 'reasoning_effort': '{value}'; supported: {allowed}."
PROVIDERS = {
    "gemini": Provider(
        path="/v1beta/openai",
        takes={"extra_body": mapping},
        takes_in_replies={"extra_content": mapping},
        takes_in_calls={"extra_content": mapping},
        unknown="Invalid JSON payload received. Unknown name \"{name}\" at '{message}': "
        "Cannot find field.",
        rules=(
            _signatures,
            _schemas,
            levels(
                "low medium high",
                says=_SAYS,
                source="pydantic/pydantic-ai pydantic_ai_slim/pydantic_ai/profiles/google.py",
                models=r"gemini-3\.7-flash|gemini-3(\.1)?-pro",
            ),
            levels(
                "minimal low medium high",
                says=_SAYS,
                source="pydantic/pydantic-ai pydantic_ai_slim/pydantic_ai/profiles/google.py",
                models=r"gemini-([4-9]|3\.[02-68-9])",
            ),
        ),
        # https://github.com/googleapis/python-genai/issues/2868
        style=Style(
            reasoning="",
            call_id=lambda _: new_id("function-call-", 19),
            index="absent",
            whole_calls=True,
            finish={"tool_calls": "stop"},
            usage="last",
            first_call={"extra_content": lambda: {"google": {"thought_signature": seal(_OURS)}}},
        ),
        error=_error,
    )
}
