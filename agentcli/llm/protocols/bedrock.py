"""Claude on Amazon Bedrock: the Anthropic Messages API through the client of Anthropic's SDK.

The client makes Bedrock's addresses and bodies of Anthropic's, signs requests, and decodes AWS's
streams. It takes an API key of Bedrock's, or else AWS's usual credentials and profiles. Source:
`lib/bedrock` of anthropic-sdk-python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from agentcli.llm.protocols.anthropic_messages import AnthropicMessages
from agentcli.llm.sdk import require_extra

_REGION = re.compile(r"bedrock[a-z-]*\.([a-z0-9-]+)\.")


class Bedrock(AnthropicMessages):
    client = "AnthropicBedrock"

    def connect(self) -> None:
        require_extra("bedrock", "botocore", "Claude on Bedrock")
        super().connect()

    def _credentials(self) -> dict[str, Any]:
        region = _REGION.search(urlsplit(self._endpoint.base_url).hostname or "")
        named = {"aws_region": region[1]} if region else {}
        return {"api_key": self._endpoint.api_key, **named}

    def _sent(self, body: bytes) -> dict[str, Any]:
        return {"body": json.loads(body)}

    def _chunks(self, stream: Any) -> Iterable[bytes]:
        for event in stream._decoder.iter_bytes(stream.response.iter_bytes()):
            yield f"event: {event.event}\ndata: {event.data}\n\n".encode()

    def models(self) -> list[str]:
        """Return none: this API has no list of models."""
        return []


PROTOCOL = Bedrock
