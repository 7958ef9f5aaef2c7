"""What servers refuse, in their own words, and what is done about it."""

# ruff: noqa: E501

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.errors import LLMErrorKind
from agentcli.llm.failures import classify
from agentcli.llm.healing import Remedy
from agentcli.llm.protocols.anthropic_messages import AnthropicMessages
from agentcli.llm.protocols.chat_completions import ChatCompletions
from agentcli.llm.protocols.responses import Responses
from agentcli.llm.provider import ADAPTIVE, BUDGETS, Traits
from agentcli.llm.sdk import SDKProtocol
from agentcli.llm.wire_protocol import Endpoint
from agentcli.messages import Message, ProviderData, Request, ToolCall, ToolChoice, ToolSchema

PICTURE = "data:image/png;base64,AA"
CHAT, ITEMS, CLAUDE = ChatCompletions, Responses, AnthropicMessages
OWN = {
    CHAT: {"reasoning_content": "hm", "tool_calls": [{"extra_content": {"google": {}}}]},
    ITEMS: {"type": "reasoning", "id": "rs_1", "encrypted_content": "x", "summary": []},
    CLAUDE: {"type": "thinking", "thinking": "hm", "signature": "x"},
}
TOOL = ToolSchema(
    "bash",
    "runs a command",
    {
        "type": "object",
        "properties": {"env": {"type": "object", "propertyNames": {"pattern": "^[A-Z]+$"}}},
        "additionalProperties": False,
    },
)


def server(wire: type[SDKProtocol], traits: Traits) -> SDKProtocol:
    return wire(Endpoint("lab", "m", "http://127.0.0.1:9/v1", None, traits=traits))


def request(wire: SDKProtocol, **changes: object) -> Request:
    """One with everything in it that a server may refuse."""
    call = ToolCall("call_1", "bash", "{}")
    data = ProviderData(wire.origin, (OWN[type(wire)],))
    messages = [
        Message.system_message("Be brief."),
        Message.user_message("look", [PICTURE]),
        Message.from_tool_calls([call], "", data),
        Message.tool_message("ok", "call_1", image_urls=[PICTURE]),
    ]
    whole = Request(
        messages, (TOOL,), max_output_tokens=64_000, session_id="s", effort="high", temperature=0.5
    )
    return replace(whole, **changes)


def remedy(
    wire: type[SDKProtocol],
    status: int,
    said: object,
    traits: Traits | None = None,
    **changes: object,
) -> Remedy | None:
    protocol = server(wire, traits or Traits())
    body = {"error": {"message": said}} if isinstance(said, str) else said
    error = classify(status, body, {}, "http://model")
    return protocol.remedy(error, request(protocol, **changes))


def mistral(name: str) -> dict[str, object]:
    """How Mistral and others that use FastAPI refuse a member."""
    place = ["body", *name.split(".")]
    problem = {"type": "extra_forbidden", "loc": place, "msg": "Extra inputs are not permitted"}
    return {"object": "error", "message": {"detail": [{**problem, "input": "hm"}]}, "code": 3001}


NINE = "Tool call id was call_0fypS1hVX but must be a-z, A-Z, 0-9, with a length of 9."
USER_AFTER_TOOL = "Unexpected role 'user' after role 'tool'"
ALTERNATE = (
    "After the optional system message, conversation roles must alternate user and assistant roles "
    "except for tool calls and results."
)
TOO_MANY = (
    "The parameter `max_tokens` specified in the request are not valid: integer above maximum "
    "value, expected a value <= 12288, but got 64000 instead. Request id: 0217752964393142fa50af54a"
)
BEYOND_WINDOW = (
    "This model's maximum context length is 128000 tokens. However, you requested 64000 output "
    "tokens and your prompt contains at least 64466 input tokens, for a total of at least 128466."
)
NO_ROOM = (
    "'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context "
    "length is 65536 tokens and your request has 2560 input tokens (64000 > 65536 - 2560)."
)
UNAFFORDABLE = (
    "This request requires more credits, or fewer max_tokens. You requested up to 64000 tokens, "
    "but can only afford 27342. To increase, visit https://openrouter.ai/settings/credits"
)
NO_TOOLS_HERE = (
    'No endpoints found that support tool use. Try disabling "question". To learn more about '
    "provider routing, visit: https://openrouter.ai/docs/guides/routing/provider-selection"
)
EXCLUSIVE = (
    "Unable to submit request because it has a maxOutputTokens value of 64000 but the supported "
    "range is from 1 (inclusive) to 8193 (exclusive). Update the value and try again."
)
NO_CACHING = (
    "You invoked an unsupported model or your request did not allow prompt caching. See the "
    "documentation for more information."
)
ONLY_RESPONSES = (
    "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. "
    "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
)
ONLY_ADAPTIVE = (
    '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
    '"output_config.effort" to control thinking behavior.'
)
OTHER_CONVERSATION = (
    "messages.3.content.0: The block is bound to a different conversation. Remove the block, or "
    "set thinking.block_binding.prefix_mismatch_behavior to drop it."
)
UNVERIFIED = (
    "The encrypted content gAAA...wXBV could not be verified. Reason: Encrypted content could not "
    "be decrypted or parsed."
)
CHANGED = (
    "messages.5.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message"
    " cannot be modified. These blocks must remain as they were in the original response."
)
NOT_STORED = (
    "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try "
    "again with `store` set to true, or remove this item from your input."
)
NO_SIGNATURE = (
    "Function call is missing a thought_signature in functionCall parts. This is required for "
    "tools to work correctly, and missing thought_signature may lead to degraded performance."
)
NO_REASONING = (
    "Missing `reasoning_content` field in the assistant message at message index 4. For more "
    "information, please refer to https://api-docs.deepseek.com/guides/thinking_mode#tool-calls"
)
UNKNOWN_IN_SCHEMA = (
    'Invalid JSON payload received. Unknown name "propertyNames" at \'tools[0]'
    ".function_declarations[30].parameters.properties[1].value': Cannot find field."
)
NO_VARIANT = (
    "Failed to deserialize the JSON body into the target type: messages[1]: unknown variant "
    "`image_url`, expected `text`"
)
ONLY_OF_USERS = (
    "Invalid 'messages[4]'. Image URLs are only allowed for messages with role 'user', but this "
    "message with role 'tool' contains an image URL."
)
TOO_WIDE = (
    "messages.19.content.27.image.source.base64.data: At least one of the image dimensions exceed "
    "max allowed size for many-image requests: 2000 pixels"
)
UNFIT_IMAGE = "Cannot preprocess image len(combined_imgs) = 1, please provide valid images"
ORPHAN = "Item 'rs_1' of type 'reasoning' was provided without its required following item."
MIRRORED = "Item 'msg_1' was provided without its required 'reasoning' item: 'rs_1'."
EFFORT_NONE = (
    "Unsupported value: 'reasoning_effort' does not support 'high' with this model. Supported "
    "values are: 'minimal', 'low', and 'medium'."
)
NO_SUMMARIES = {
    "message": "Your organization must be verified to generate reasoning summaries.",
    "param": "reasoning.summary",
    "code": "unsupported_value",
}
NO_ENCRYPTION = {"message": "Encrypted content is not supported with this model."}
GROQ = (
    "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property "
    "'reasoning_content' is unsupported)]"
)
OTHER_LIMIT = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    "'max_completion_tokens' instead."
)
ONLY_ONE = (
    "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) "
    "value is supported."
)
LITELLM = (
    "litellm.UnsupportedParamsError: gpt-5 models don't support temperature=0.5. Only temperature=1"
    " is supported. To drop unsupported params set `litellm.drop_params = True`."
)
NO_AUTO = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
NO_MMPROJ = (
    "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
)
DASHSCOPE = "<400> InternalError.Algo.InvalidParameter: "
LESS = (
    "max_tokens must be less than or equal to 40960, the maximum value for max_tokens is less than "
    "the context_window for this model"
)
SPENT = (
    "All accounts exhausted. Last error: messages.1.content.0: Invalid `signature` in `thinking`"
)

# Wire format, status, words, cause of the remedy, what it changes, and where the words were seen.
REFUSALS = [
    # The cap of a reply
    (CHAT, 400, OTHER_LIMIT, "cap as max_completion_tokens", {"output_limit": "max_completion_tokens"}),  # ThinkInAIXYZ/deepchat#336
    (CHAT, 400, "max_tokens is too large: 64000. This model supports at most 4096 completion tokens, whereas you provided 64000.", "most output", {"most_output_tokens": 4096}),  # ChatGPTNextWeb/NextChat#3195
    (CHAT, 400, {"error": {"message": "Param Incorrect", "param": "max_tokens is too large: 64000. This model supports at most 32768 completion tokens, whereas you provided 64000.", "code": "400"}}, "most output", {"most_output_tokens": 32_768}),  # AQBot-Desktop/AQBot#93
    (CHAT, 400, TOO_MANY, "most output", {"most_output_tokens": 12_288}),  # Gitlawb/openclaude#331
    (CLAUDE, 400, "max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens for claude-opus-4-20250514", "most output", {"most_output_tokens": 32_000}),  # anthropics/claude-code#24451
    (CHAT, 400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", "most output", {"most_output_tokens": 8_192}),  # we0-dev/we0#56
    (CHAT, 400, DASHSCOPE + "Range of max_tokens should be [1, 8192]", "most output", {"most_output_tokens": 8_192}),  # open-webui/open-webui#10507
    (CHAT, 400, LESS, "most output", {"most_output_tokens": 40_960}),  # Alishahryar1/free-claude-code#955
    (CHAT, 400, EXCLUSIVE, "most output", {"most_output_tokens": 8_192}),  # Vertex AI; "exclusive" is one more than fits
    # How much to reason
    (CHAT, 400, "Unrecognized request argument supplied: reasoning_effort", "effort", {"efforts": {}}),  # formulahendry/wechat-acp#16
    (CHAT, 400, EFFORT_NONE, "effort minimal low medium", {"efforts": {"minimal": {"reasoning_effort": "minimal"}, "low": {"reasoning_effort": "low"}, "medium": {"reasoning_effort": "medium"}}}),  # Kilo-Org/cloud#3807
    (CHAT, 400, "Validation error for `reasoning_effort`: expected one of `'low' | 'medium'`, received `'high'`.", "effort low medium", {}),  # router-for-me/CLIProxyAPI#1307
    (CHAT, 400, 'level "high" not supported, valid levels: low, medium', "effort low medium", {}),  # nguyenphutrong/quotio#287
    (CHAT, 400, ONLY_RESPONSES, "no effort with tools", {"always": {"reasoning_effort": "none"}, "efforts": {}}),  # BerriAI/litellm#40123
    (ITEMS, 400, "Unsupported parameter: 'reasoning.effort' is not supported with this model.", "effort", {"efforts": {}}),  # openai/openai-python types/shared/reasoning.py
    (ITEMS, 400, {"error": NO_SUMMARIES}, "summary", {}),  # OpenHands/software-agent-sdk#987
    (CLAUDE, 400, "adaptive thinking is not supported on this model", "thinking budget", {"efforts": BUDGETS}),  # docker/docker-agent#3381
    (CLAUDE, 400, "Only 'enabled' and 'disabled' are supported for thinking; 'adaptive' is not supported.", "thinking budget", {"efforts": BUDGETS}),  # anthropics/claude-code#29531
    (CLAUDE, 400, "The model returned the following errors: output_config: Extra inputs are not permitted", "effort", {"efforts": {}}),  # BerriAI/litellm#13609
    (CLAUDE, 400, "thinking.adaptive.display: Extra inputs are not permitted", "display", {"always": {"thinking": {"type": "adaptive"}}}),  # anthropics/anthropic-sdk-python types/thinking_config_adaptive_param.py
    (CHAT, 400, '"granite4:3b" does not support thinking', "effort", {"efforts": {}}),  # NousResearch/hermes-agent#108070
    (CHAT, 400, "Model grok-4 does not support parameter reasoningEffort.", "effort", {"efforts": {}}),  # xAI, whose words are of another API
    (CHAT, 400, {"errors": [{"instance": "/reasoning_effort", "error": "additional property not allowed"}]}, "effort", {"efforts": {}}),  # a pointer into the body, RFC 6901
    # Sampling and other members of the body
    (CHAT, 400, ONLY_ONE, "temperature", {"unwanted": ["temperature"]}),  # QwenLM/qwen-code#921
    (CHAT, 400, LITELLM, "temperature", {"unwanted": ["temperature"]}),  # chatboxai/chatbox#2627
    (CLAUDE, 400, "`temperature` is deprecated for this model.", "temperature", {"unwanted": ["temperature"]}),  # Comfy-Org/ComfyUI#13923
    (CLAUDE, 400, "temperature: Extra inputs are not permitted", "temperature", {"unwanted": ["temperature"]}),  # platform.claude.com/docs/en/api/versioning
    (CHAT, 400, "Unknown parameter: 'stream_options'.", "stream_options", {"unwanted": ["stream_options"]}),  # QuantumNous/new-api#418
    (CHAT, 400, "Validation error at #/stream_options: Extra inputs are not permitted", "stream_options", {}),  # microsoft/semantic-kernel#10510
    (CHAT, 422, mistral("stream_options"), "stream_options", {}),  # sipeed/picoclaw#1019
    (ITEMS, 400, "Unrecognized request argument supplied: prompt_cache_key", "prompt_cache_key", {}),  # zed-industries/zed#52000
    (ITEMS, 400, "Validation: Unsupported parameter(s): `prompt_cache_key`", "prompt_cache_key", {}),  # anomalyco/opencode#45113
    (ITEMS, 400, {"error": "[{'type': 'extra_forbidden', 'loc': ('body', 'prompt_cache_key'), 'msg': 'Extra inputs are not permitted'}]"}, "prompt_cache_key", {}),  # sipeed/picoclaw#1019
    (ITEMS, 400, {"error": {**NO_ENCRYPTION, "param": "include"}}, "include", {"unwanted": ["include"]}),  # pydantic/pydantic-ai#2915
    (ITEMS, 422, mistral("store"), "store", {"unwanted": ["store"]}),  # partITech/php-mistral#76
    # What a model wrote for itself
    (CLAUDE, 400, "messages.1.content.0: Invalid `signature` in `thinking` block", "reasoning", {}),  # ding113/claude-code-hub#518
    (CLAUDE, 400, "messages.1.content.0: Invalid signature in thinking block", "reasoning", {}),  # kaitranntt/ccs#415
    (CLAUDE, 429, SPENT, "reasoning", {}),  # lbjlaq/Antigravity-Manager#1393
    (CLAUDE, 400, CHANGED, "reasoning", {}),  # platform.claude.com/docs build-with-claude/extended-thinking
    (CLAUDE, 400, OTHER_CONVERSATION, "reasoning", {}),  # platform.claude.com/docs build-with-claude/preserved-thinking
    (ITEMS, 400, UNVERIFIED, "reasoning", {}),  # openai/openai-agents-python#2063
    (ITEMS, 400, {"error": {"message": "Bad request", "code": "invalid_encrypted_content"}}, "reasoning", {}),  # openai/codex#8119
    (ITEMS, 400, ORPHAN, "reasoning", {}),  # continuedev/continue#8933
    (ITEMS, 400, MIRRORED, "reasoning", {}),  # continuedev/continue#11994
    (CLAUDE, 400, "***.***.***.***.***.signature: Field required", "reasoning", {}),  # ding113/claude-code-hub#489
    (CLAUDE, 400, "messages.3.content.10: When providing `thinking` or `redacted_thinking` blocks, the blocks must match the parameters during the original request.", "reasoning", {}),  # anthropics/claude-code#2171
    (CLAUDE, 400, "messages.1.content.0: Invalid data in `redacted_thinking` block", "reasoning", {}),
    (CLAUDE, 400, "Thinking signature verification failed", "reasoning", {}),
    (ITEMS, 400, "Encrypted content organization_id did not match the target organization.", "reasoning", {}),
    (ITEMS, 400, "Failed to decrypt reasoning content", "reasoning", {}),
    (ITEMS, 400, "Duplicate item found with id rs_1. Remove duplicate items from your input and try again.", "reasoning", {}),
    (ITEMS, 404, "Item with id 'rs_1' not found.", "reasoning", {}),
    (ITEMS, 400, "input[2]: reasoning items are not taken for this model", "reasoning", {}),
    (ITEMS, 400, "Invalid 'input[1].summary': array too short. Expected an array with minimum length 1.", "reasoning", {}),
    (ITEMS, 404, NOT_STORED, "reasoning", {}),  # openai/openai-agents-js#546
    (ITEMS, 400, "Cannot determine type of 'item'", "reasoning", {}),  # ggml-org/llama.cpp#29159
    (CHAT, 400, "Unable to submit request because Thought signature is not valid.. Learn more", "reasoning", {}),  # NoeFabris/opencode-antigravity-auth#368
    (CHAT, 400, NO_SIGNATURE, "thought_signature", {}),  # lbjlaq/Antigravity-Manager#139
    (CHAT, 400, "The `reasoning_content` in the thinking mode must be passed back to the API.", "filled reasoning_content", {"filled": {"reasoning_content": " "}}),  # openclaw/openclaw#85192
    (CHAT, 400, NO_REASONING, "filled reasoning_content", {}),  # langgenius/dify-official-plugins#2350
    (CHAT, 400, "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2", "filled reasoning_content", {}),  # earendil-works/pi#4178
    (CHAT, 400, GROQ, "returned reasoning_content", {"not_returned": ["reasoning_content"]}),  # SimonSchubert/Kai#265
    (CHAT, 422, mistral("messages.2.assistant.reasoning_content"), "returned reasoning_content", {}),  # BerriAI/litellm#30835
    (CHAT, 400, "Unknown parameter: 'messages[2].reasoning_content'.", "returned reasoning_content", {}),  # openai/openai-python types/chat
    (CHAT, 400, "invalid message content type: <nil>", "filled content", {"filled": {"content": ""}}),  # pydantic/pydantic-ai#5206
    (CHAT, 400, "Invalid value for 'content': expected a string, got null.", "filled content", {}),  # docker/docker-agent#63
    (CHAT, 422, {"detail": [{"type": "missing", "loc": ["body", "messages", 2, "content"], "msg": "Field required"}]}, "filled content", {}),  # lmstudio-ai/lmstudio-bug-tracker#261
    (CHAT, 400, "Unrecognized request argument supplied: messages[2].tool_calls[0].extra_content", "returned extra_content", {"not_returned": ["extra_content"]}),  # of a call, after a change of gateway
    # Images
    (CHAT, 400, NO_VARIANT, "images", {"images": "none"}),  # rikkahub/rikkahub#1433
    (CHAT, 400, "Model do not support image input. Request id: 021788884720158619b169", "images", {"images": "none"}),  # anomalyco/opencode#47994
    (CHAT, 404, "No endpoints found that support image input", "images", {"images": "none"}),  # github/app#2163
    (CHAT, 500, NO_MMPROJ, "images", {"images": "none"}),  # ggml-org/llama.cpp#15377
    (CHAT, 500, 'Failed to parse messages: Unsupported content part type: "image_url"', "images", {}),  # ggml-org/llama.cpp#12947
    (CHAT, 400, "Invalid content type. image_url is only supported by certain models.", "images", {}),  # browser-use/web-ui#274
    (CHAT, 400, ONLY_OF_USERS, "images in results", {"images": "messages"}),  # OpenHands/OpenHands#7700
    (CHAT, 400, "messages.content.type is illegal, only 'text' is allowed", "images", {"images": "none"}),  # z.ai
    (CHAT, 500, "Expected content to be a string, got array", "images", {}),  # chat templates of llama.cpp
    (CHAT, 400, DASHSCOPE + "The provided URL does not appear to be valid.", "an image", {}),
    (CLAUDE, 400, TOO_WIDE, "an image", {}),  # anthropics/claude-code#24630
    (CLAUDE, 400, "Could not process image", "an image", {}),  # anthropics/claude-code#46127
    (CHAT, 400, UNFIT_IMAGE, "an image", {}),  # machine-theory/lm-council#14
    # Tools
    (CHAT, 404, NO_TOOLS_HERE, "tools", {"tools": "text"}),  # Kilo-Org/kilocode#9006
    (CHAT, 400, "registry.ollama.ai/library/gemma3:4b does not support tools", "tools", {}),  # ollama/ollama server/routes.go
    (CHAT, 500, "tools param requires --jinja flag", "tools", {}),  # defilantech/LLMKube#126
    (CHAT, 500, "Unsupported param: tools", "tools", {}),  # ggml-org/llama.cpp#10920
    (CHAT, 400, NO_AUTO, "tools", {}),  # ogx-ai/ogx#1185
    (CHAT, 400, "Unrecognized request arguments supplied: tool_choice, tools", "tools", {}),  # Azure, of several members
    (CHAT, 400, mistral("tools"), "tools", {}),  # partITech/php-mistral#76
    (CHAT, 400, UNKNOWN_IN_SCHEMA, "schema propertyNames", {"unwanted_keywords": ["propertyNames"]}),  # openclaw/openclaw#14499
    (CHAT, 400, "Failed to initialize samplers: failed to parse grammar", "simple schema", {}),  # ggml-org/llama.cpp#26596
    (CHAT, 400, "JSON schema conversion failed: Pattern must start with '^' and end with '$'", "simple schema", {}),  # openclaw/openclaw#110202
    # Ids, roles and their order, marks
    (CHAT, 400, NINE, "short ids", {"short_ids": True}),  # karthink/gptel#1203
    (CHAT, 400, "messages.5.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", "plain ids", {"plain_ids": True}),  # tailcallhq/forgecode#1142
    (CHAT, 400, USER_AFTER_TOOL, "user after tool", {"user_after_tool": False}),  # NousResearch/hermes-agent#20154
    (CHAT, 500, ALTERNATE, "user after tool", {}),  # anomalyco/opencode#5034
    (CHAT, 400, "System role not supported", "instructions as user", {"system_role": "user"}),  # vllm-project/vllm#2964
    (CHAT, 400, "Only user, assistant and tool roles are supported, got system.", "instructions as user", {}),  # anomalyco/opencode#5034
    (CHAT, 400, "Developer instruction is not enabled for models/gemma-3-27b-it", "instructions as user", {}),  # 0xPlaygrounds/rig#788
    (CLAUDE, 400, "system.1.cache_control.ephemeral.scope: Extra inputs are not permitted", "cache_control", {"cache_marks": False}),  # caozhiyuan/copilot-api#145
    (CHAT, 500, "Only user and assistant roles are supported!", "instructions as user", {}),  # chat templates of Mistral's models
    (CLAUDE, 403, NO_CACHING, "cache_control", {"cache_marks": False}),  # posit-dev/positron#12142
    (CLAUDE, 400, "A maximum of 4 blocks with cache_control may be provided. Found 5.", "cache_control", {}),  # Wei-Shaw/sub2api#176
]  # fmt: skip


@pytest.mark.parametrize(
    ("wire", "status", "said", "cause", "changes"),
    REFUSALS,
    ids=[f"{status} {str(said)[:60]}" for _, status, said, _, _ in REFUSALS],
)
def test_a_refusal_names_its_cause(wire, status, said, cause, changes):
    found = remedy(wire, status, said)
    assert found is not None
    assert found.cause == cause
    assert {name: found.changes.get(name) for name in changes} == changes
    assert found.message
    assert "\n" not in found.message
    # The changes are kept as JSON and must fit when they are read.
    assert Traits().with_changes(found.changes) != Traits() or not found.changes


# Words that contain what a request does, but name nothing that can be left out.
NOT_HEALED = [
    (CHAT, 429, "Rate limit reached for m: Limit 30000, Requested 64000 max_tokens. Try again in 1s."),
    (CHAT, 429, "You exceeded your current quota, please check your plan and billing details."),
    (CHAT, 401, "Incorrect API key provided: sk-x."),
    (CLAUDE, 401, "Invalid signature in authorization header"),
    (CLAUDE, 403, "The request signature we calculated does not match the signature you provided."),
    (CHAT, 403, "Country, region, or territory not supported"),
    (CHAT, 400, "User location is not supported for the API use."),
    (CHAT, 400, "Your request was rejected as a result of our safety system."),
    (CHAT, 400, "Your input image may contain content that is not allowed by our safety system."),
    (CHAT, 400, "The model `m` does not exist or you do not have access to it."),
    (CHAT, 400, "Invalid model name passed in model=m. Call `/v1/models` to view available models"),
    (CLAUDE, 400, "prompt is too long: 210000 tokens > 200000 maximum"),
    (CHAT, 400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."),
    (CHAT, 400, "Cannot use custom grammar constraints with tools."),
    (CHAT, 503, "Loading model"),
    (CHAT, 500, "The server had an error. Please include the request ID req_1 and store it."),
    (CLAUDE, 529, "Overloaded"),
    (CHAT, 402, "Insufficient Balance"),
    (CHAT, 400, "messages: at least one message is required"),
    (CHAT, 400, "We could not parse the JSON body of your request; include no comma, store it as UTF-8."),
    (ITEMS, 400, "Your request is invalid: please include the unknown model of the store."),
    (CHAT, 400, "The maximum is not available; try the max plan."),
    (CHAT, 400, "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: call_1"),
    (CHAT, 400, "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."),
    (CLAUDE, 400, "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after"),
    (ITEMS, 400, "No tool output found for function call call_1."),
    (CLAUDE, 400, "You have reached your specified API usage limits."),
    (CLAUDE, 400, "Your account is on hold. Please contact our support team to enable tool use."),
    (CHAT, 404, "404 page not found"),
    (CHAT, 413, "Request Entity Too Large"),
    (CHAT, 400, "Provider returned error"),
    (CHAT, 404, "No endpoints found matching your data policy."),
    (CHAT, 400, "The reasoning engine is not available in your region"),
    (CHAT, 400, "Tool call arguments are not valid JSON"),
    (CHAT, 502, "<html><head><title>502 temperature is not supported</title></head></html>"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wire", "status", "said"), NOT_HEALED, ids=[said[:60] for _, _, said in NOT_HEALED]
)
def test_what_names_no_cause_is_left_to_the_person(wire, status, said):
    assert remedy(wire, status, said) is None


def test_a_request_that_the_server_repeats_names_nothing():
    echo = {"store": False, "temperature": 0.5, "reasoning_effort": "high", "stream_options": {}}
    problem = {"type": "missing", "loc": ["body", "user"], "msg": "Field required", "input": echo}
    assert remedy(CHAT, 422, {"detail": [{**problem, "msg": "unknown user"}]}) is None


@pytest.mark.parametrize(
    ("wire", "said", "room"),
    [
        (CHAT, BEYOND_WINDOW, 63_534),  # vllm-project/vllm#42474
        (CHAT, NO_ROOM, 62_976),  # stepfun-ai/Step-Audio-R1#3
        (CLAUDE, "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, "
         "decrease input length or `max_tokens` and try again", 21_041),  # docker/docker-agent#569
        (CHAT, "This model's maximum context length is 65536 tokens. However, you requested 70000 "
         "tokens (6000 in the messages, 64000 in the completion).", 59_536),
        (CHAT, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32768. Given: "
         "1000 `inputs` tokens and 64000 `max_new_tokens`", 31_768),  # huggingface/text-generation-inference router/src/validation.rs
    ],
)  # fmt: skip
def test_a_reply_gets_the_room_that_the_words_leave(wire, said, room):
    found = remedy(wire, 400, said)
    assert found is not None
    assert (found.cause, found.changes) == ("room", {})
    assert found.applied(Request([])).max_output_tokens == room


def test_a_prompt_that_leaves_no_room_is_condensed_instead():
    said = "input length and `max_tokens` exceed context limit: 199990 + 64000 > 200000"
    assert remedy(CLAUDE, 400, said) is None


@pytest.mark.parametrize(("tokens", "cap"), [(27_342, 25_974), (0, None)])
def test_what_the_account_can_pay_for_is_asked_for(tokens, cap):
    # Gitlawb/openclaude#1125, anomalyco/opencode#12219
    found = remedy(CHAT, 402, UNAFFORDABLE.replace("27342", str(tokens)))
    assert (found.most_output_tokens if found else None) == cap


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        (CHAT, DASHSCOPE + "The tool_choice parameter does not support being set to required"),  # cloudwego/eino#994
        (CHAT, "Thinking mode does not support this tool_choice"),  # XiaomiMiMo/MiMo-Code#2068
        (CLAUDE, "Thinking may not be enabled when tool_choice forces tool use."),  # can1357/oh-my-pi#341
    ],
)  # fmt: skip
def test_a_model_that_can_not_be_made_to_call_is_asked_to(wire, said):
    found = remedy(wire, 400, said, tool_choice=ToolChoice.REQUIRED)
    assert found is not None
    assert (found.cause, found.changes) == ("tool_choice", {"forced_tools": False})


@pytest.mark.parametrize(
    "said",
    [
        "Reasoning is mandatory for this endpoint and cannot be disabled.",
        "Budget 0 is invalid. This model only works in thinking mode.",  # vercel/ai#8027
    ],
)
def test_a_model_that_always_reasons_is_asked_for_the_least(said):
    found = remedy(CHAT, 400, said, effort="none")
    assert found is not None
    assert Traits().with_changes(found.changes).effort("none", {}) == {"reasoning_effort": "low"}


def test_content_that_must_be_text_is_filled_first_and_then_goes_without_images():
    said = "messages[2].content must be a string"
    found = remedy(CHAT, 400, said)
    assert found is not None
    assert found.cause == "filled content"
    found = remedy(CHAT, 400, said, Traits().with_changes(found.changes))
    assert found is not None
    assert found.cause == "images"


def test_budgets_give_way_to_efforts():
    # earendil-works/pi#6212
    found = remedy(CLAUDE, 400, ONLY_ADAPTIVE, Traits(efforts=BUDGETS))
    assert found is not None
    assert found.changes == {"efforts": ADAPTIVE, "always": {}}


def test_what_is_gone_already_is_no_cause():
    plain = Request([Message.user_message("hello")])
    told = "Model do not support image input. Unknown parameter: 'temperature'. Invalid `signature`"
    error = classify(400, {"error": {"message": told}}, {}, "http://model")
    for wire in (CHAT, ITEMS, CLAUDE):
        assert server(wire, Traits()).remedy(error, plain) is None


def test_a_remedy_without_changes_is_of_the_conversation_so_far():
    protocol = server(CLAUDE, Traits())
    error = classify(400, {"error": {"message": OTHER_CONVERSATION}}, {}, "http://model")
    found = protocol.remedy(error, request(protocol))
    assert found is not None
    assert found.drops == "reasoning"
    healed = found.applied(request(protocol))
    assert not any(message.provider_data for message in healed.messages)
    assert protocol.remedy(error, healed) is None


@pytest.mark.parametrize("wire", [CHAT, ITEMS, CLAUDE])
@given(st.text(max_size=300), st.sampled_from([400, 402, 404, 413, 422, 429, 500]))
def test_any_words_are_looked_at_without_harm(wire, said, status):
    found = remedy(wire, status, said)
    assert found is None or found.cause


def test_a_reply_too_long_stays_an_overflow_for_who_condenses():
    error = classify(400, {"error": {"message": BEYOND_WINDOW}}, {}, "http://model")
    assert error.kind is LLMErrorKind.CONTEXT_OVERFLOW
