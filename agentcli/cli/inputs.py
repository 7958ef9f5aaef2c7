"""What a person gives to a run beside its flags: words, piped text, images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.open_session import OpenSession
from agentcli.cli import stdin
from agentcli.errors import UsageError
from agentcli.files.images import ImageFault, file_url
from agentcli.files.names import display_path


def attached(images: Sequence[Path]) -> tuple[str, ...]:
    """The images of -i as data URLs, of any size. Raises UsageError for one that no model would
    take."""
    urls = []
    for path in images:
        try:
            urls.append(file_url(path))
        except ImageFault as fault:
            raise UsageError(f"{display_path(path)} {fault}") from fault
        except OSError as error:
            raise UsageError(f"{display_path(path)} can't be read: {error.strerror}") from error
    return tuple(urls)


def message_text(
    builder: AgentBuilder, opened: OpenSession, message: str | None, piped: stdin.Piped
) -> str:
    """What the person says by arguments and stdin; without `message` stdin is all of it."""
    outputs, limit = opened.session.outputs, builder.settings.input.stdin_max_bytes
    if message is None:
        return stdin.said(piped, outputs, limit)
    return stdin.with_piped(message, piped, outputs, limit)


def piped_beside(builder: AgentBuilder, no_stdin: bool) -> stdin.Piped:
    if no_stdin or not stdin.is_piped():
        return stdin.Piped()
    waits = builder.settings.input
    return stdin.read_beside_task(waits.stdin_notice_s, waits.stdin_limit_s, stdin.tell_on_stderr)
