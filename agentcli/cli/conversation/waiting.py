"""What the user said while the agent was at work, until it is heard or done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import RLock
from typing import TYPE_CHECKING

from agentcli.errors import UsageError
from agentcli.ui.prompt.control import Submission, Waiting

if TYPE_CHECKING:
    from agentcli.cli.conversation.mailbox import SessionMailbox


@dataclass(frozen=True)
class _Entry:
    """Something that waits: a message in the inbox, with its id there, or a command that runs after
    the turn. While `held`, it may be either and has no id."""

    submission: Submission
    message_id: str = ""
    held: bool = False

    @property
    def after_turn(self) -> bool:
        return not self.message_id or self.submission.delivery == "queue"


class WaitingInputs:
    """The waiting inputs of a conversation, safe to use from both its threads. `mailbox` is None
    where there is no session."""

    def __init__(self) -> None:
        self.mailbox: SessionMailbox | None = None
        self._entries: list[_Entry] = []
        self._lock = RLock()

    def add_message(self, submission: Submission) -> None:
        """Add a message for the working session. Raises AgentError."""
        mailbox = self.mailbox
        if mailbox is None:
            raise UsageError("no session is open just now: send it again")
        with self._lock:
            self._entries.append(_Entry(submission, mailbox.put(submission)))

    def add_command(self, submission: Submission) -> None:
        with self._lock:
            self._entries.append(_Entry(submission))

    def all(self) -> list[Waiting]:
        """Return all waiting inputs in order: messages from other terminals, then the user's own,
        then held ones."""
        return [
            Waiting(entry.submission.text, entry.held, entry.after_turn)
            for entry in self._current()
        ]

    def take(self, number: int) -> Submission | None:
        """Remove and return the input at `number` of `all` (-1: the newest); None without one."""
        with self._lock:
            current = self._current()
            if not -len(current) <= number < len(current):
                return None
            taken = current[number]
            self._remove(taken)
            return taken.submission

    def take_back(self) -> Submission | None:
        """Remove and return the newest of the user's own inputs."""
        with self._lock:
            own = [number for number, e in enumerate(self._current()) if e in self._entries]
            return self.take(own[-1]) if own else None

    def hold(self) -> bool:
        """Hold everything that waits; False if nothing does."""
        with self._lock:
            for entry in self._current():
                self._remove(entry)
                self._entries.append(replace(entry, message_id="", held=True))
            return bool(self._entries)

    def release(self) -> bool:
        """Let held inputs wait as before; False if there are none. Raises AgentError."""
        with self._lock:
            held = [entry for entry in self._entries if entry.held]
            for entry in held:
                if not entry.submission.is_command and self.mailbox is None:
                    continue
                self._entries.remove(entry)
                if entry.submission.is_command:
                    self.add_command(entry.submission)
                else:
                    self.add_message(entry.submission)
            return bool(held)

    def next_command(self) -> Submission | None:
        """Remove and return the oldest command."""
        with self._lock:
            for entry in self._entries:
                if not entry.message_id and not entry.held:
                    self._entries.remove(entry)
                    return entry.submission
        return None

    def _current(self) -> list[_Entry]:
        """Return what is still waiting; messages that were heard are dropped."""
        with self._lock:
            mailbox = self.mailbox
            texts = mailbox.texts() if mailbox is not None else {}
            self._entries = [e for e in self._entries if not e.message_id or e.message_id in texts]
            own = {entry.message_id for entry in self._entries}
            others = [_Entry(Submission(texts[name]), name) for name in texts if name not in own]
            return [*others, *sorted(self._entries, key=lambda entry: entry.held)]

    def _remove(self, entry: _Entry) -> None:
        mailbox = self.mailbox
        if entry.message_id and mailbox is not None:
            mailbox.remove(entry.message_id)
        if entry in self._entries:
            self._entries.remove(entry)
