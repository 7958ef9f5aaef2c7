"""Asking the person at the terminal whether an action may run."""

from __future__ import annotations

import os
import re
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from agentcli.events import Action
from agentcli.events.actions import (
    CmdRunAction,
    FileEditAction,
    FileWriteAction,
    IPythonRunCellAction,
    MCPAction,
    ToolCallAction,
)
from agentcli.ui.sanitize import printable

_BLANKS = re.compile(r"[ \t]{40,}")
_EMPTY_LINES = re.compile(r"\n(?:[ \t]*\n){5,}")


@dataclass(frozen=True, slots=True)
class Approval:
    """The person's answer; `reason` is what they want the model to know."""

    allowed: bool
    scope: Literal["once", "session"] = "once"
    reason: str = ""


def session_grant(action: Action) -> str:
    """What `a` allows, in words."""
    match action:
        case CmdRunAction() | IPythonRunCellAction():
            return "all commands"
        case FileWriteAction() | FileEditAction():
            return "all writes outside the workspace"
        case MCPAction(server=server, name=name):
            return f"all calls of {name} on {server}"
        case ToolCallAction(name=name):
            return f"all calls of {name}"
    return f"all actions of kind {action.kind}"


class TerminalApprover:
    """Talks to the controlling terminal itself, wherever stdin and stdout go.

    `before_asking` is called first, so that whatever else draws on the terminal can make room.
    `grant_text` says what an answer for the whole session would allow.
    """

    def __init__(
        self,
        tty_path: str = "/dev/tty",
        *,
        before_asking: Callable[[], None] = lambda: None,
        grant_text: Callable[[Action], str] = session_grant,
        color: bool | None = None,
    ) -> None:
        self._tty_path = tty_path
        self._before_asking = before_asking
        self._grant_text = grant_text
        self._color = not os.environ.get("NO_COLOR") if color is None else color

    def available(self) -> bool:
        """Whether there is a person to ask: stderr is a terminal and the tty opens."""
        if not sys.stderr.isatty():
            return False
        try:
            os.close(self._open())
        except OSError:
            return False
        return True

    def ask(self, action: Action, reason: str) -> Approval:
        """Show the whole of `action` and wait for an answer; the end of input is a no.

        Raises OSError when there is no terminal. An interrupt passes through.
        """
        self._before_asking()
        fd = self._open()
        try:
            with _line_mode(fd):
                _write(fd, self._question(action, reason))
                while True:
                    _write(fd, self._bold("> "))
                    line = _read_line(fd)
                    if line is None:
                        _write(fd, "\n")
                        return Approval(False, reason="no answer: the terminal was closed")
                    answer = _understand(line)
                    if answer is not None:
                        return answer
                    _write(fd, "  y, a, n, or a few words for the model\n")
        finally:
            os.close(fd)

    def _open(self) -> int:
        return os.open(self._tty_path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)

    def _question(self, action: Action, reason: str) -> str:
        kind, body, place = _what(action)
        grant = printable(self._grant_text(action), multiline=False, strict=True)
        lines = ["", self._bold(f"Allow this {kind}?"), ""]
        lines += [f"  │ {line}" for line in _exact(body).split("\n")]
        if place:
            lines.append(f"  in {printable(place, multiline=False, strict=True)}")
        if reason:
            lines.append(f"  asked because: {printable(reason, multiline=False, strict=True)}")
        lines += [
            "",
            f"  {self._bold('y')}  yes, once",
            f"  {self._bold('a')}  yes, and {grant} until this session ends",
            f"  {self._bold('n')}  no; or type what the model should know or do instead",
            "",
        ]
        return "\n".join(lines)

    def _bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self._color else text


def _what(action: Action) -> tuple[str, str, str]:
    """What kind of thing is asked, its whole text, and where it happens."""
    match action:
        case CmdRunAction(command=command, cwd=cwd, is_input=is_input):
            return ("input to the running command" if is_input else "command"), command, cwd or ""
        case IPythonRunCellAction(code=code):
            return "Python code", code, ""
        case FileWriteAction(path=path, content=content):
            return "write", f"{path}\n\n{content}", ""
        case FileEditAction(path=path):
            return "edit", "\n".join([f"{action.command} {path}", *_edit(action)]), ""
    call = action.tool_call_metadata
    if call is not None:
        return f"call of {call.function_name}", call.raw_arguments, ""
    return "action", action.model_dump_json(exclude_defaults=True), ""


def _edit(action: FileEditAction) -> Iterator[str]:
    removed = action.old_str
    added = action.new_str if action.new_str is not None else action.content
    for sign, text in (("-", removed), ("+", added)):
        if text is not None:
            yield from (f"{sign} {line}" for line in text.split("\n"))


def _exact(text: str) -> str:
    """Every character of `text` to be seen; padding that could push some of it out of sight is
    counted instead of shown."""
    text = _BLANKS.sub(lambda run: f"<{len(run.group())} blanks>", printable(text, strict=True))
    return _EMPTY_LINES.sub(lambda run: f"\n<{run.group().count(chr(10)) - 1} empty lines>\n", text)


def _understand(line: str) -> Approval | None:
    text = printable(line, multiline=False).strip()
    match text.lower():
        case "y" | "yes":
            return Approval(True)
        case "a" | "all" | "always":
            return Approval(True, "session")
        case "n" | "no":
            return Approval(False)
    return Approval(False, reason=text) if len(text) > 2 else None


def _read_line(fd: int) -> str | None:
    """None at the end of input."""
    data = b""
    while not data.endswith(b"\n"):
        chunk = os.read(fd, 4096)
        if not chunk:
            return None
        data += chunk
    return data.decode("utf-8", "replace")


def _write(fd: int, text: str) -> None:
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(fd, data) :]


@contextmanager
def _line_mode(fd: int) -> Iterator[None]:
    """The terminal reads whole lines with echo, as a program before may have left it otherwise.

    What was typed before the question is dropped: it can't have been meant as an answer.
    """
    before = termios.tcgetattr(fd)
    mode = termios.tcgetattr(fd)
    mode[0] |= termios.ICRNL
    mode[1] |= termios.OPOST | termios.ONLCR
    mode[3] |= termios.ICANON | termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ISIG
    termios.tcsetattr(fd, termios.TCSAFLUSH, mode)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
