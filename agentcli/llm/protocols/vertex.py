"""Claude on Google's Vertex AI: the Anthropic Messages API through the client of Anthropic's SDK.

The client makes Vertex's addresses and bodies of Anthropic's. A token comes from a key command, or
from Google's application default credentials. Source: `lib/vertex` of anthropic-sdk-python.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any
from urllib.parse import urlsplit

from agentcli.errors import ConfigError
from agentcli.llm.protocols.anthropic_messages import AnthropicMessages
from agentcli.llm.sdk import require_extra

_REGION = re.compile(r"([a-z0-9-]+)-aiplatform\.|aiplatform\.([a-z]+)\.rep\.")
_PROJECT = "ANTHROPIC_VERTEX_PROJECT_ID"


class Vertex(AnthropicMessages):
    client = "AnthropicVertex"

    def connect(self) -> None:
        if self._endpoint.api_key is None:
            require_extra("vertex", "google.auth", "Claude on Vertex AI")
        elif not os.environ.get(_PROJECT):
            raise ConfigError(f"{_PROJECT} is not set", hint="it names your Google Cloud project")
        super().connect()

    def _credentials(self) -> dict[str, Any]:
        region = _REGION.match(urlsplit(self._endpoint.base_url).hostname or "")
        named = (region[1] or region[2]) if region else os.environ.get("CLOUD_ML_REGION")
        return {"access_token": self._endpoint.api_key, "region": named or "global"}

    def _address(self) -> tuple[str, dict[str, str]]:
        return self._endpoint.base_url, {}

    def _sent(self, body: bytes) -> dict[str, Any]:
        return {"body": json.loads(body)}

    def models(self) -> list[str]:
        """Return none: this API has no list of models."""
        return []


PROTOCOL = Vertex
