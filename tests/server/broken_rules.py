"""Requests that break one rule of a provider each, with what it says to them."""

from __future__ import annotations

from typing import Any, NamedTuple

from .samples import CHAT, DROP, MESSAGES, RESPONSES, Body, changed
from .wire import seal, signature

Changes = dict[str, Any]
"""Values by their places in the sample request of the provider's wire format."""
API_OF = {"anthropic": "/messages", "openai": "/responses"}
"""The wire formats of those that don't speak Chat Completions."""


class Broken(NamedTuple):
    """A request with one thing wrong."""

    provider: str
    model: str
    says: str
    """A part of what the provider answers."""
    changes: Changes = {}
    status: int = 400
    version: str = "2026-10-21"
    """The version of Anthropic's API that is asked for."""

    @property
    def path(self) -> str:
        return API_OF.get(self.provider, "/chat/completions")

    @property
    def body(self) -> Body:
        body = {"/messages": MESSAGES, "/responses": RESPONSES}.get(self.path, CHAT)
        for place, value in self.changes.items():
            body = changed(body, place, value)
        return body | {"model": self.model}


def _effort(level: str, **more: object) -> Changes:
    return {"thinking": DROP, "output_config": {"effort": level}, **more}


_ADAPTIVE = {"type": "adaptive"}
_DISABLED = {"type": "disabled"}
_ELSEWHERE = {"type": "thinking", "thinking": "Hm.", "signature": signature("Hm.", "elsewhere")}
_REASONED = {"messages.2.reasoning_content": " "}
_CAPPED = {"max_completion_tokens": DROP, "max_tokens": 9}
_SIGNED = "messages.2.tool_calls.0.extra_content"
_FINAL = {"role": "assistant", "content": "I"}
_SAID = {
    "type": "message",
    "id": "msg_0",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hm.", "annotations": []}],
}


def _renamed(call_id: str) -> Changes:
    return {"messages.2.tool_calls.0.id": call_id, "messages.4.tool_call_id": call_id}


REFUSED = [
    Broken("anthropic", "claude-opus-4-5", "temperature: Extra inputs", {"temperature": 1}),
    Broken("anthropic", "claude-opus-4-8", "`top_p` is deprecated",
           {"thinking": DROP, "top_p": 1}, version="2023-06-01"),
    Broken("anthropic", "claude-sonnet-5-5", '"thinking.type.enabled" is not supported'),
    Broken("anthropic", "claude-opus-5-5", '"thinking.type.disabled"', {"thinking": _DISABLED}),
    Broken("anthropic", "claude-haiku-4-5", '"thinking.type.adaptive"', {"thinking": _ADAPTIVE}),
    Broken("anthropic", "claude-sonnet-4-5", "effort parameter", _effort("low")),
    Broken("anthropic", "claude-opus-4-5", "effort level 'max'", _effort("max")),
    Broken("anthropic", "claude-opus-4-6", "effort level 'xhigh'", _effort("xhigh")),
    Broken("anthropic", "claude-opus-5", "disabled thinking",
           _effort("max", thinking=_DISABLED)),
    Broken("anthropic", "claude-sonnet-5-5", "tool_choice",
           {"thinking": DROP, "tool_choice": {"type": "any"}}),
    Broken("anthropic", "claude-sonnet-4-6", "prefill", {"thinking": DROP, "messages.+": _FINAL}),
    Broken("anthropic", "claude-sonnet-5-5", "bound to a different conversation",
           {"thinking": DROP, "messages.1.content.0": _ELSEWHERE}),
    Broken("anthropic", "claude-sonnet-5-5", "block_binding: Extra inputs",
           {"thinking": {"type": "adaptive", "block_binding": {}}}),
    Broken("openai", "gpt-6.1-sol", "'none' is not supported", {"reasoning.effort": "none"}),
    Broken("openai", "gpt-5.1", "'xhigh' is not supported", {"reasoning.effort": "xhigh"}),
    Broken("openai", "gpt-5.5", "'temperature' is not supported", {"temperature": 1}),
    Broken("openai", "gpt-5.5", "organization_id did not match",
           {"input.1.encrypted_content": seal(["rs_1", "another", "fc_1"])}),
    Broken("openai-chat", "gpt-5.5", "Use 'max_completion_tokens'", _CAPPED),
    Broken("openai-chat", "gpt-6-sol", "Function tools with reasoning_effort"),
    Broken("openai-chat", "gpt-5.5", "'minimal' is not", {"reasoning_effort": "minimal"}),
    Broken("openai-chat", "gpt-5.5", "'top_p' is not supported", {"top_p": 1}),
    Broken("azure", "gpt-5.5", "Use 'max_completion_tokens'", _CAPPED),
    Broken("gemini", "gemini-3.8-flash", "missing a thought_signature"),
    Broken("gemini", "gemini-3.8-flash", "Corrupted thought signature",
           {_SIGNED: {"google": {"thought_signature": seal(["read"])}}}),
    Broken("gemini", "gemini-2.5-pro", 'Unknown name "$ref"',
           {"tools.0.function.parameters.properties.command": {"$ref": "#/$defs/x"}}),
    Broken("gemini", "gemini-2.5-pro", 'Unknown name "thinking"', {"thinking": {}}),
    Broken("gemini", "gemini-3.7-flash", "'minimal'", {"reasoning_effort": "minimal"}),
    Broken("openrouter", "anthropic/claude-sonnet-5", "Invalid `signature`",
           {"messages.2.reasoning_details": [
               {"type": "reasoning.text", "text": "Ha.", "signature": signature("Hm.")}]}),
    Broken("openrouter", "x-ai/grok-4.5", "Only one of",
           {"reasoning": {"effort": "low", "max_tokens": 9}}),
    Broken("deepseek", "deepseek-v4-pro", "unknown variant `image_url`"),
    Broken("deepseek", "deepseek-v4-pro", "must be passed back"),
    Broken("deepseek", "deepseek-v4-pro", "does not support this tool_choice",
           {"messages.2.reasoning_content": "", "tool_choice": "required"}),
    Broken("moonshot", "kimi-k3", "reasoning_content is missing",
           {"messages.2.reasoning_content": ""}),
    Broken("moonshot", "kimi-k2.6", "text content is empty",
           _REASONED | {"messages.2.content": [{"type": "text", "text": ""}]}),
    Broken("moonshot", "kimi-k2.6", "type should be defined in anyOf",
           _REASONED | {"tools.0.function.parameters.properties.command": {
               "type": "string", "anyOf": [{"type": "string"}]}}),
    Broken("moonshot", "kimi-k2.6", "only 1 is allowed", _REASONED | {"temperature": 0.5}),
    Broken("moonshot", "kimi-k3", "invalid reasoning_effort",
           _REASONED | {"reasoning_effort": "medium"}),
    Broken("moonshot", "kimi-k3", "incompatible", _REASONED | {"tool_choice": "required"}),
    Broken("moonshot", "kimi-k2.7-code", "only type=enabled", {"thinking": _DISABLED}),
    Broken("zai", "glm-5.3", "disabled is not supported", {"thinking": _DISABLED}),
    Broken("minimax", "MiniMax-M3", "invalid message role: system", {"messages.5.role": "system"}),
    Broken("minimax", "MiniMax-M3", "is empty", {"tools.0.function.parameters": DROP}),
    Broken("minimax", "MiniMax-M3", "invalid thinking.type", {"thinking": {"type": "enabled"}}),
    Broken("minimax", "MiniMax-M2.7", "invalid chat setting"),
    Broken("dashscope", "qwen3-235b-a22b-thinking", "non-streaming calls",
           {"stream": False, "stream_options": DROP}),
    Broken("dashscope", "qwen3.8-max", "required or object", {"tool_choice": "required"}),
    Broken("xai", "grok-4.5", "value 'none'", {"reasoning_effort": "none"}),
    Broken("xai", "grok-4.5", "presence_penalty", {"presence_penalty": 1}),
    Broken("xai", "grok-4", "reasoningEffort", {"reasoning_effort": "low"}),
    Broken("mistral", "mistral-large", "Extra inputs", status=422),
    Broken("mistral", "mistral-large", "messages.2.reasoning_content: Extra inputs", _REASONED,
           status=422),
    Broken("mistral", "mistral-large", "with a length of 9", _CAPPED),
    Broken("mistral", "mistral-large", "'user' after role 'tool'", _CAPPED),
    Broken("mistral", "mistral-large", "reasoning_effort", _CAPPED | {"reasoning_effort": "low"}),
    Broken("mistral", "mistral-large", "last role", _CAPPED | {"messages.5": _FINAL}),
    Broken("groq", "openai/gpt-oss-120b", "'reasoning_content' is unsupported", _REASONED),
    Broken("groq", "openai/gpt-oss-120b", "'store' is unsupported", {"store": False}),
    Broken("groq", "openai/gpt-oss-120b", "must be one of", {"reasoning_effort": "max"}),
    Broken("groq", "qwen/qwen3-32b", "must be one of", {"reasoning_effort": "low"}),
    Broken("groq", "openai/gpt-oss-120b", "hidden or parsed", {"reasoning_format": "raw"}),
    Broken("cerebras", "gpt-oss-120b", "not supported by this model"),
    Broken("cerebras", "gpt-oss-120b", "'body.store' is unsupported", {"store": True}),
    Broken("cerebras", "gpt-oss-120b", "reasoning_content' is unsupported", _REASONED),
    Broken("cerebras", "gpt-oss-120b", "must be one of", {"reasoning_effort": "none"}),
    Broken("fireworks", "accounts/fireworks/models/kimi-k3", "field: 'store'", {"store": False}),
    Broken("fireworks", "accounts/fireworks/models/kimi-k3", "'reasoning'", {"reasoning": {}}),
    Broken("litellm", "claude-sonnet", "without `tools=` param",
           {"tools": DROP, "tool_choice": DROP, "parallel_tool_calls": DROP}),
    Broken("ollama", "no-tools", "does not support tools"),
    Broken("llamacpp", "no-jinja", "requires --jinja", status=500),
    Broken("llamacpp", "m", "custom grammar", {"grammar": "root ::= \"a\""}),
    Broken("vllm", "no-parser", "requires --enable-auto-tool-choice"),
]  # fmt: skip
"""Refused with an error."""
NOTED = [
    Broken("moonshot", "kimi-k3", "max_completion_tokens", _REASONED),
    Broken("together", "zai-org/GLM-5.3", "max_completion_tokens"),
    Broken("zai", "glm-5.3", "message 2 came back without", _renamed("call_-1")),
    Broken("minimax", "MiniMax-M3", "message 2 came back without", _renamed("call_function_1")),
    Broken("openai", "gpt-5.5", "came back without its `phase`",
           {"input.1.encrypted_content": seal(["rs_1", "", "msg_0"]), "input.2": _SAID,
            "input.3": DROP, "input.3.id": "msg_2"}),
]  # fmt: skip
"""Answered all the same."""
