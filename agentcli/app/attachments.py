"""Images attached to a message."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentcli.errors import UsageError
from agentcli.files.images import ImageFault, file_url
from agentcli.files.names import display_path


def attached(images: Sequence[Path]) -> tuple[str, ...]:
    """Return image files as data URLs. Raises UsageError for one that no model would accept."""
    urls = []
    for path in images:
        try:
            urls.append(file_url(path))
        except ImageFault as fault:
            raise UsageError(f"{display_path(path)} {fault}") from fault
        except OSError as error:
            raise UsageError(f"{display_path(path)} can't be read: {error.strerror}") from error
    return tuple(urls)
