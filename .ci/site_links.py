"""A hook of mkdocs: shows links to source files, which the site does not have, as their text."""

from __future__ import annotations

import re

_TO_SOURCE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:agentcli|benchmarks|tests)/[^)]*\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    return _TO_SOURCE.sub(r"\1", markdown)
