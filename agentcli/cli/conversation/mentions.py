"""Earlier sessions that a message mentions, summarised for the model."""

from __future__ import annotations

import re
from pathlib import Path

from agentcli.agent.replies import last_answer
from agentcli.app.named_paths import BEFORE_MENTIONED
from agentcli.sessions.search.finder import find
from agentcli.sessions.session import read_session

MENTION = "@session:"
_MENTION = re.compile(rf"(?<!\S){MENTION}([\w.-]+)")
_MOST_CHARS = 6_000


def with_mentioned(text: str, home: Path) -> str:
    """Return the text, followed by how each mentioned session ended. Raises UsageError for a
    session that does not exist."""
    names = dict.fromkeys(_MENTION.findall(text))
    return "".join([text, *(_summary_of(find(home, name), name) for name in names)])


def _summary_of(folder: Path, name: str) -> str:
    record = read_session(folder)
    state, answer = record.state, last_answer(record.events)
    if len(answer) > _MOST_CHARS:
        answer = f"{answer[:_MOST_CHARS]}\n[… cut]"
    return (
        f"{BEFORE_MENTIONED}{name} was about: {state.title}\nIt worked in {state.workspace} and is "
        f"{state.agent_state}. What it answered last:\n{answer or 'nothing'}]"
    )
