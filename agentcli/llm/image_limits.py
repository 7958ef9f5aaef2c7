"""How large an image may be for a model to see every detail.

Providers scale larger images down, so that a model would name positions in an image that nobody
else has. If the image is scaled down here, the model can be told the factor. The providers' limits,
from July to November 2026:

| models | longer side | pixels | source |
|---|---|---|---|
| Claude | 1,568 | 1.15 million | https://platform.claude.com/docs/en/build-with-claude/vision |
| GPT | 2,048 | any | https://developers.openai.com/api/docs/guides/images-vision |
| Gemini | 3,072 | any | https://ai.google.dev/gemini-api/docs/image-understanding |

No image has more than 2,000 pixels a side, whatever the model: a session may continue with a Claude
model, which refuses larger ones in a request with more than 20 images. That is also the limit for
models without a published one, such as those of local servers.
"""

from __future__ import annotations

from agentcli.messages import ImageLimits

_CLAUDE = ImageLimits(side=1_568, pixels=1_150_000)


def image_limits(model: str) -> ImageLimits:
    name = model.lower()
    return _CLAUDE if name.startswith("anthropic/") or "claude" in name else ImageLimits()
