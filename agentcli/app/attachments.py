"""Images attached to a message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agentcli.errors import UsageError
from agentcli.llm.image_limits import image_limits
from agentcli.workspace.images import ImageFault, file_url, fit_message_images
from agentcli.workspace.names import display_path


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
