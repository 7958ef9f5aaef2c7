"""How large an image may be for a model to see all of it.

Larger ones are scaled down by the provider, so that a model would name places in an image that
nobody else has; scaled down here, the model can be told by how much. In July to November 2026 they
said:

| models | longer side | pixels | source |
|---|---|---|---|
| Claude | 1,568 | 1.15 million | https://platform.claude.com/docs/en/build-with-claude/vision |
| GPT | 2,048 | any | https://developers.openai.com/api/docs/guides/images-vision |
| Gemini | 3,072 | any | https://ai.google.dev/gemini-api/docs/image-understanding |

No image goes beyond 2,000 pixels a side, whatever its model: a session may go on with a Claude
model, and in a request with more than 20 images that refuses larger ones. For models that say
nothing, such as those of local servers, that is the limit too.
"""

from __future__ import annotations

from agentcli.messages import ImageLimits

_CLAUDE = ImageLimits(side=1_568, pixels=1_150_000)


def image_limits(model: str) -> ImageLimits:
    """For `model`, by its provider and name."""
    name = model.lower()
    return _CLAUDE if name.startswith("anthropic/") or "claude" in name else ImageLimits()
