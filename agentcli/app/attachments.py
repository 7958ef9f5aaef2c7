"""What a message of the user brings along: images, and files in /tmp that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentcli.errors import UsageError
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction, is_user_message
from agentcli.events.conversation import live, newest_first
from agentcli.events.progress import Notice
from agentcli.llm.catalog import image_limits
from agentcli.sandbox.scope_finder import paths_named, why_not_shown
from agentcli.sessions.session import SessionLog
from agentcli.tools.base import ToolContext
from agentcli.workspace.images import ImageFault, file_url, fit_message_images
from agentcli.workspace.names import display_path
from agentcli.workspace.scope import TMP


def attached(images: Sequence[Path], objection: Callable[[Path], str]) -> tuple[str, ...]:
    """Return image files as data URLs. Raises UsageError for one that no model would accept, or if
    `objection` says why the file at its resolved path may not be read."""
    urls = []
    for path in images:
        if why := objection(path.resolve()):
            raise UsageError(f"{display_path(path)} may not be read: {why}")
        try:
            urls.append(file_url(path))
        except ImageFault as fault:
            raise UsageError(f"{display_path(path)} {fault}") from fault
        except OSError as error:
            raise UsageError(f"{display_path(path)} can't be read: {error.strerror}") from error
    return tuple(urls)


def with_images(text: str, urls: Sequence[str], model: str) -> tuple[str, tuple[str, ...]]:
    """Return a message with its images as large as `model` can see them, and a note on how they
    were scaled. Raises UsageError."""
    try:
        return fit_message_images(text, urls, image_limits(model))
    except ImageFault as fault:
        hint = "make it smaller, or tell the model where it is: it can read files"
        raise UsageError(str(fault), hint=hint) from fault


BEFORE_MENTIONED = "\n\n[@session:"
"""How the part of a message begins that tells about a session it mentions."""


def named_before(events: Sequence[Event]) -> list[Path]:
    """Return the paths that the user named in recorded messages: noted with a message that was
    entered here, or in the text of one from another terminal, which the user also typed."""
    found: dict[Path, None] = {}
    for event in live(events):
        if is_user_message(event):
            found |= dict.fromkeys(_noted(event))
    return list(found)


def restore(events: Sequence[Event], context: ToolContext) -> None:
    """Show what was named in a session that is being continued, before anything runs."""
    if context.sandbox is None or TMP in context.sandbox.scope.writable:
        return
    scope = context.sandbox.view
    for path in named_before(events):
        if _is_elsewhere(path, context) and not why_not_shown(path, scope):
            scope.user_named.append(path)


def show_newest(session: SessionLog, context: ToolContext) -> None:
    """Show what messages from another terminal name, if they still await a reply."""
    since = takewhile(lambda event: event.reply is None, newest_first(session.events))
    messages = [event for event in since if isinstance(event, MessageAction)]
    show([path for each in messages[::-1] for path in named_in(each)], session, context)


def named_in(message: MessageAction) -> list[Path]:
    """Return the paths that a user's message from another terminal names. The answer of an earlier
    session quoted below it names nothing."""
    of_user = message.source is Source.USER and message.inbox_id is not None
    return paths_named(message.content.partition(BEFORE_MENTIONED)[0]) if of_user else []


def show(paths: Iterable[Path], session: SessionLog, context: ToolContext) -> None:
    """Let the session read these paths where they are, if they belong to the user, and tell the
    user and the model."""
    scope = context.sandbox.view if context.sandbox is not None else None
    if scope is None or TMP in scope.writable:
        return
    new = [path for path in paths if not scope.is_user_named(path)]
    # Parts of the workspace, for example, are readable already.
    new = [path for path in new if _is_elsewhere(path, context)]
    shown = []
    for path in new:
        if why := why_not_shown(path, scope):
            session.notify(Notice(f"{display_path(path)} is not shown to the session: {why}"))
        else:
            scope.user_named.append(path)
            shown.append(path)
    if not shown:
        return
    kept_closed = context.shell.look_anew()
    names = ", ".join(map(display_path, shown))
    session.notify(Notice(f"the session may read {names}"))
    later = "; commands find it once the jobs have ended and bash is restarted" * kept_closed
    rest = "; all else in /tmp is yours alone" * (TMP in scope.mounts)
    told = f"[{names}: shown to you where it is, read-only{rest}{later}.]"
    session.emit(MessageAction(content=told, source=Source.ENVIRONMENT))


def _is_elsewhere(path: Path, context: ToolContext) -> bool:
    sandbox = context.sandbox
    assert sandbox is not None
    if not sandbox.contains:
        return False
    return sandbox.layer == "landlock" or sandbox.real_path(str(path)) != path


def _noted(message: MessageAction) -> Iterator[Path]:
    for url in message.file_urls:
        parts = urlsplit(url)
        if parts.scheme == "file":
            yield Path(unquote(parts.path))
    yield from named_in(message)
