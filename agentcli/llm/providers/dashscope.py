"""Alibaba's Qwen, through DashScope.

Sources: help.aliyun.com/en/model-studio/deep-thinking; pydantic-ai's file for it.
"""

from agentcli.llm.provider import Provider, Traits

PROVIDER = Provider(
    title="Alibaba Qwen",
    base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    key_env="DASHSCOPE_API_KEY",
    keys_page="https://bailian.console.alibabacloud.com/?tab=model#/api-key",
    default_model="qwen3.8-max",
    traits=Traits(
        efforts={
            "none": {"enable_thinking": False},
            "low": {"enable_thinking": True, "thinking_budget": 4_096},
            "medium": {"enable_thinking": True, "thinking_budget": 10_240},
            "high": {"enable_thinking": True, "thinking_budget": 24_576},
            "max": {"enable_thinking": True},
        },
        forced_tools=False,
    ),
    models={r"coder": {"efforts": {}}},
    rank=24,
)
