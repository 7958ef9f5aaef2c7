"""Messages that wait for a working session, with the earlier sessions they mention."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentcli.agent.replies import last_answer
from agentcli.app.attachments import BEFORE_MENTIONED, attached, with_images
from agentcli.sessions import inbox
from agentcli.sessions.finder import find
from agentcli.sessions.session import SessionLog, read_session
from agentcli.ui.prompt.control import Submission

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


@dataclass(frozen=True)
class SessionMailbox:
    """The messages that wait for a session."""

    session: SessionLog
    home: Path
    objection: Callable[[Path], str]
    """Says why an image may not be read."""

    def put(self, submission: Submission) -> str:
        """Put a message in the inbox and return its id. Raises UsageError if it mentions a session
        or an image that does not exist."""
        said = with_mentioned(submission.text, self.home)
        images = attached(submission.images, self.objection)
        text, urls = with_images(said, images, self.session.state.model)
        return inbox.put(self.session.folder, text, submission.delivery, urls)

    def remove(self, message_id: str) -> None:
        inbox.remove(self.session.folder, message_id)

    def texts(self) -> dict[str, str]:
        return {message.id: message.text for message in inbox.waiting(self.session.folder)}
