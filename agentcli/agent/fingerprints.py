"""When two actions, or two results, count as the same in the search for progress.

The comparison leaves out what differs from run to run by itself (times, process ids, names of
temporary files); everything else counts, to the last byte of an output that the model saw only a
part of.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from functools import lru_cache

from agentcli.events import Action, Observation, volatile
from agentcli.events.actions import CmdRunAction, IPythonRunCellAction
from agentcli.events.observations import (
    CmdOutputObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    UserRejectObservation,
)
from agentcli.workspace.private import open_regular

_MOST_BYTES = 4_000_000
"""The most to read of an output kept in a file; comparing that takes a tenth of a second."""
_EXPLAINING_ARGUMENTS = frozenset({"thought", "reason", "security_risk", "risk"})
"""Arguments that say why something is done, not what is done."""

_TEMPORARY = re.compile(volatile.TEMPORARY)
_CLOCK = re.compile(f"{volatile.DATES}|{volatile.CLOCKS}|{volatile.SECONDS}")
_VOLATILE = re.compile(
    "|".join((volatile.DURATIONS, volatile.ADDRESSES, volatile.PIDS, volatile.IDS))
)
_LOOKS_AT_A_LOG = re.compile(r"\btail\b|\.log\b|\blogs?\b|\bjournalctl\b|\bdmesg\b")
_WAITS = re.compile(
    r"\bsleep\b|\bwait\b|\bwatch\b|\binotifywait\b|\buntil\b|\bwhile\s+!|--wait\b|--follow\b"
    r"|\btail\b(?:(?!\btail\b)[^|;&])*? -[a-zA-Z]*f"
)


def action_key(action: Action) -> str:
    """Return a key that is equal for two calls that ask for the same, for whatever reason."""
    call = action.tool_call_metadata
    if call is None:
        return f"{action.kind} {action.message}"
    try:
        arguments = json.loads(call.raw_arguments or "{}")
        if isinstance(arguments, dict):
            arguments = {k: v for k, v in arguments.items() if k not in _EXPLAINING_ARGUMENTS}
        text = json.dumps(arguments, sort_keys=True)
    except (ValueError, RecursionError):
        text = call.raw_arguments
    return f"{call.function_name} {_TEMPORARY.sub('~', text)}"


def outcome_key(action: Action, observation: Observation) -> str:
    """Return a key that is equal for equal actions' results if nothing happened in between."""
    keep_clock = isinstance(action, CmdRunAction) and bool(_LOOKS_AT_A_LOG.search(action.command))
    parts = [observation.kind, _digest(observation.content, keep_clock)]
    if isinstance(observation, CmdOutputObservation):
        metadata = observation.metadata
        parts.append(str(metadata.exit_code))
        if metadata.truncated and metadata.full_output_path:
            parts.append(_file_digest(metadata.full_output_path, keep_clock))
    parts += getattr(observation, "image_urls", ())
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def is_failure(observation: Observation) -> bool:
    """Whether the action could not be done at all. A command that ran and failed is no such
    failure: its output says more than that."""
    if isinstance(observation, ErrorObservation | UserRejectObservation):
        return True
    return getattr(observation, "error", False) is True


def waits(action: Action) -> bool:
    """Whether the action waits for something outside, so that repeating it is sensible."""
    if isinstance(action, CmdRunAction):
        return action.job is not None or bool(_WAITS.search(action.command))
    return isinstance(action, IPythonRunCellAction) and bool(_WAITS.search(action.code))


def digest_after(observation: Observation) -> tuple[str, str] | None:
    """Return the changed file and the digest of its new content; None if nothing changed."""
    if isinstance(observation, FileEditObservation | FileWriteObservation) and observation.diff:
        return observation.path, observation.digest
    return None


def digest_before(observation: Observation) -> tuple[str, str] | None:
    """Return the file that was read or edited, and the digest of its content then, if known."""
    if isinstance(observation, FileReadObservation) and observation.digest:
        return observation.path, observation.digest
    if isinstance(observation, FileEditObservation) and observation.old_content is not None:
        before = observation.old_content.encode("utf-8", "surrogateescape")
        return observation.path, hashlib.sha256(before).hexdigest()
    return None


def text_key(text: str) -> str:
    """Return a key that is equal for two messages with the same words."""
    return _digest(" ".join(text.split()), False)


@lru_cache(maxsize=64)
def _digest(text: str, keep_clock: bool) -> str:
    """Digest the text without what changes by itself. In a log, the time of a line counts."""
    if not keep_clock:
        text = _CLOCK.sub("~", text)
    text = _VOLATILE.sub("~", _TEMPORARY.sub("~", text))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _file_digest(path: str, keep_clock: bool) -> str:
    """Digest the first and last 2 MB of an output kept in a file; empty if that is gone."""
    try:
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            return _bytes_digest(path, status.st_size, status.st_mtime_ns, keep_clock)
    except (OSError, ValueError):
        return ""


@lru_cache(maxsize=64)
def _bytes_digest(path: str, size: int, changed_ns: int, keep_clock: bool) -> str:
    with open_regular(path) as file:
        data = file.read(_MOST_BYTES // 2)
        if size > _MOST_BYTES:
            file.seek(size - _MOST_BYTES // 2)
        data += file.read(_MOST_BYTES // 2)
    return _digest(data.decode("utf-8", "replace"), keep_clock)
