"""The providers' error bodies and model lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .wire import new_id

_CODES = (
    ("Unknown parameter", "unknown_parameter"),
    ("Missing required parameter", "missing_required_parameter"),
    ("Invalid schema for function", "invalid_function_parameters"),
    ("The encrypted content", "invalid_encrypted_content"),
    ("Incorrect API key", "invalid_api_key"),
    ("The model", "model_not_found"),
    ("Invalid", "invalid_value"),
)
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def openai_error(status: int, kind: str, message: str) -> dict[str, Any]:
    """OpenAI's error body. A `kind` that names a type (`server_error`) is the type, any other
    (`context_length_exceeded`) is the code; `insufficient_quota` is both, as with OpenAI."""
    by_status = "invalid_request_error" if status < 500 else "server_error"
    if status == 429:
        by_status = "requests"
    is_type = kind.endswith("_error") or kind == "insufficient_quota"
    code = kind if kind and not kind.endswith("_error") else None
    if not kind:
        code = next((code for start, code in _CODES if message.startswith(start)), None)
    quoted = re.search(r"'([a-z_.\[\]0-9]+)'", message)
    return {
        "error": {
            "message": message,
            "type": kind if is_type else by_status,
            "param": quoted.group(1) if quoted and status == 400 and not kind else None,
            "code": code,
        }
    }


def anthropic_error(status: int, kind: str, message: str) -> dict[str, Any]:
    """Anthropic's error body; `kind` is the error's type, else the status says it."""
    fallback = "api_error" if status >= 500 else "invalid_request_error"
    kind = kind or _ANTHROPIC_TYPES.get(status, fallback)
    return {
        "type": "error",
        "error": {"type": kind, "message": message},
        "request_id": new_id("req_"),
    }


def openai_models(names: Sequence[str]) -> dict[str, Any]:
    """OpenAI's list of models."""
    models = [
        {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "loopback"}
        for name in names
    ]
    return {"object": "list", "data": models}


def anthropic_models(names: Sequence[str]) -> dict[str, Any]:
    """Anthropic's list of models, on one page."""
    models = [
        {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": "2025-01-01T00:00:00Z",
            "lifecycle": "active",
            "max_input_tokens": 200_000,
            "max_tokens": 64_000,
        }
        for name in names
    ]
    return {
        "data": models,
        "has_more": False,
        "first_id": names[0] if names else None,
        "last_id": names[-1] if names else None,
    }
