"""What families of models take wherever they are served, as rows for `Provider.models`.

The first row of a family is its newest form, which is taken for models that are not known yet; the
rows after it say how older ones differ.

Sources: the model pages of platform.claude.com/docs (thinking, effort, what is new in 4.6 to 5.5)
and `types/` of anthropic-sdk-python 2.14; the deployment checklist of developers.openai.com and the
profile of OpenAI's models in pydantic-ai.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agentcli.llm.traits import Efforts, Rows, levels

_SHOWN = {"type": "adaptive", "display": "summarized"}
"""Without `display`, thinking and the text between calls arrive empty from Claude 4.7 on."""
_OFF = {"none": {"thinking": {"type": "disabled"}}}
_SAMPLING = ("temperature", "top_p", "top_k")


def _adaptive(words: str, thinking: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {
        word: {"thinking": thinking, "output_config": {"effort": word}} for word in words.split()
    }


def _budget(tokens: int) -> Mapping[str, Any]:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


ADAPTIVE = _adaptive("low medium high xhigh max", _SHOWN)
BUDGETS = {"low": _budget(4_096), "medium": _budget(10_240), "high": _budget(24_576)}

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
