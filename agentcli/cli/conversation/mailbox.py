"""Messages that are said while a session works wait in its inbox."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentcli.app.attachments import attached, with_images
from agentcli.cli.conversation.mentions import with_mentioned
from agentcli.sessions import inbox
from agentcli.sessions.session import Session
from agentcli.ui.prompt.control import Submission


@dataclass(frozen=True)
class SessionMailbox:
    """The messages that wait for a session."""

    session: Session
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
