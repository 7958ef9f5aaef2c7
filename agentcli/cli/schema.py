"""`agent schema`: the form of what `--json` writes."""

from __future__ import annotations

import json


def schema() -> None:
    """Print the JSON Schema of the lines that --json writes."""
    from agentcli.ui.jsonl import stream_schema

    print(json.dumps(stream_schema(), indent=2))
