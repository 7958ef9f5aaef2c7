"""Print the JSON Schema of the lines that --json writes.

Examples:
  agent schema > lines.schema.json
"""

from __future__ import annotations

import json

from agentcli.ui.stream_schema import stream_schema


def schema() -> None:
    print(json.dumps(stream_schema(), indent=2))


COMMAND = schema
