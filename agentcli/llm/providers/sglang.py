"""SGLang on this machine.

It is asked and told as vLLM is. Source: docs.sglang.ai, separate reasoning.
"""

from dataclasses import replace

from agentcli.llm.providers import vllm

PROVIDER = replace(
    vllm.PROVIDER,
    title="SGLang",
    base_url="http://127.0.0.1:30000/v1",
    start="python -m sglang.launch_server --model-path MODEL",
    rank=9,
)
