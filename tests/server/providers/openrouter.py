"""OpenRouter: https://openrouter.ai/docs."""

from __future__ import annotations

from collections.abc import Iterator

from ..chat_answer import Style
from ..checks import anything, array, mapping, nullable, string
from ..wire import signs
from .provider import Asked, Provider, as_json, rule

_PRESERVING = (
    "https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#preserving-reasoning-blocks"
)


@rule("https://github.com/can1357/oh-my-pi/issues/3399", models="anthropic|claude", kind="upstream")
def _details(asked: Asked) -> Iterator[str]:
    """Signed reasoning comes back as it was, piece for piece or joined."""
    for index, reply in asked.replies:
        text = ""
        for detail in reply.get("reasoning_details") or []:
            text += detail.get("text") or ""
            if detail.get("signature") and not signs(detail["signature"], text):
                yield f"messages.{index}.content.0: Invalid `signature` in `thinking` block"


@rule(_PRESERVING)
def _reasoning(asked: Asked) -> Iterator[str]:
    reasoning = asked.body.get("reasoning") or {}
    if "effort" in reasoning and "max_tokens" in reasoning:
        yield 'Only one of "reasoning.effort" and "reasoning.max_tokens" may be specified'


def _error(status: int, kind: str, message: str) -> object:
    """What the provider behind it said is a text inside: https://openrouter.ai/docs/api/errors."""
    if kind.startswith("upstream"):
        raw = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        metadata = {"raw": as_json(raw), "provider_name": "Anthropic", "is_byok": False}
        body = {"message": "Provider returned error", "code": status, "metadata": metadata}
        return {"error": body, "user_id": "user_loopback"}
    words = {"type": kind} if kind else {}
    return {"error": {"message": message, "code": status} | words, "user_id": "user_loopback"}


PROVIDERS = {
    "openrouter": Provider(
        path="/api/v1",
        messages_path="/api",
        takes={
            "reasoning": mapping,
            "provider": mapping,
            "plugins": array,
            "models": array,
            "usage": mapping,
            "transforms": array,
            "cache_control": mapping,
        },
        takes_in_replies={"reasoning": nullable(string), "reasoning_details": nullable(array)},
        takes_in_parts=("cache_control",),
        takes_in_calls={"extra_content": anything},
        ignores_unknown=True,
        rules=(_details, _reasoning),
        style=Style(
            reasoning="reasoning_details",
            usage="own",
            opening=b": OPENROUTER PROCESSING\n\n",
            pause=b": OPENROUTER PROCESSING\n\n",
        ),
        error=_error,
    )
}
