"""`agent trust`: what a folder brings along, and whether it may take effect."""

from __future__ import annotations

import json
import os
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentcli.cli.session_common import Json, confirmed
from agentcli.system.programs import person_environ

if TYPE_CHECKING:
    from agentcli.app.trust import Answer
    from agentcli.security.trust import Fingerprint, TrustState, TrustStore


def trust(
    folder: Annotated[
        str | None, typer.Argument(help="The one you are in if left out.", metavar="DIR")
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Only show what would take effect.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Trust it no longer.")] = False,
    list_all: Annotated[bool, typer.Option("--list", help="All folders you trust.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> int:
    """Let settings, hooks, tool servers and skills of a folder take effect.

    As they are now: when one of these files changes, the folder is trusted no longer.
    """
    from agentcli.app.trust import inside_session, trust_store
    from agentcli.errors import ConfigError, UsageError
    from agentcli.security.trust import fingerprint

    if show + revoke + list_all > 1:
        raise UsageError("--show, --revoke and --list: one of them")
    store = trust_store(person_environ())
    if list_all:
        return _list(store, as_json)
    workspace = _existing(folder)
    if revoke:
        return _revoke(store, workspace, as_json)
    found = fingerprint(workspace)
    if show:
        _print(found, store.standing(found), as_json)
        return 0
    if inside_session(person_environ()):
        raise UsageError(
            "no session may decide what is trusted", hint="run agent trust in a shell of your own"
        )
    if found.fault:
        raise ConfigError(f"{workspace} can't be trusted: {found.fault}")
    standing = store.standing(found)
    if not yes or not as_json:
        _print(found, standing, as_json=False, stream=sys.stderr)
    agreed = standing.trusted or not found.files or confirmed("trust this folder?", yes)
    if agreed and found.files and not standing.trusted:
        store.trust(found)
    if as_json:
        _print(found, store.standing(found), as_json=True)
    elif agreed and found.files:
        print(f"{_line(str(workspace))} is trusted, as it is now")
    elif not agreed:
        print(f"{_line(str(workspace))} is not trusted")
    return 0 if agreed else 1


def _existing(folder: str | None) -> Path:
    from agentcli.app.agent_builder import resolve_workspace
    from agentcli.errors import ConfigError, UsageError

    try:
        return resolve_workspace(folder)
    except ConfigError as error:
        raise UsageError(error.message, hint="see: agent trust --help") from error


def ask_trust(found: Fingerprint, standing: TrustState) -> Answer:
    """Show the person at the terminal what `found` would do, and ask. The end of input is a no, and
    so is a terminal that is gone; an interrupt passes through."""
    try:
        return _asked_at_terminal(found, standing)
    except (OSError, termios.error):
        return "no"


def _asked_at_terminal(found: Fingerprint, standing: TrustState) -> Answer:
    """Raises OSError or termios.error when there is no terminal or it hangs up."""
    fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    with open(fd, "r+b", buffering=0) as tty:
        lines = [
            "",
            *_told(found, standing),
            "",
            "Do you trust it? Until you do, only what is stricter than your settings holds.",
            "  y      yes, as it is now",
            "  n      no, not this time",
            "  never  no, and do not ask again",
        ]
        tty.write("\n".join([*lines, "> "]).encode("utf-8", "replace"))
        while True:
            # What was typed before the question can't have been meant as an answer.
            termios.tcflush(fd, termios.TCIFLUSH)
            try:
                line = _read_line(fd)
            except BaseException:
                with suppress(OSError):
                    tty.write(b"\n")
                raise
            if line is None:
                return "no"
            match line.strip().lower():
                case "y" | "yes":
                    return "yes"
                case "n" | "no" | "":
                    return "no"
                case "never":
                    return "never"
            tty.write(b"  y, n or never > ")


def _read_line(fd: int) -> str | None:
    """None at the end of input."""
    data = b""
    while not data.endswith(b"\n"):
        chunk = os.read(fd, 4096)
        if not chunk:
            return None
        data += chunk
    return data.decode("utf-8", "replace")


def _list(store: TrustStore, as_json: bool) -> int:
    folders = store.folders()
    if as_json:
        print(json.dumps(folders, indent=2))
        return 0
    for folder, since in folders.items():
        print(f"{_line(folder)}  # since {since}")
    if not folders:
        print("you trust no folder yet", file=sys.stderr)
    return 0


def _revoke(store: TrustStore, workspace: Path, as_json: bool) -> int:
    known = store.revoke(workspace)
    if as_json:
        print(json.dumps({"workspace": str(workspace), "trusted": False, "was_known": known}))
    else:
        print(f"{_line(str(workspace))} is {'no longer' if known else 'not'} trusted")
    return 0


def _print(found: Fingerprint, standing: TrustState, as_json: bool, stream: Any = None) -> None:
    from agentcli.app.trust import settings_of

    if as_json:
        data = {
            "workspace": str(found.workspace),
            "trusted": standing.trusted,
            "changed": standing.changed,
            "files": found.files,
            "settings": {} if found.fault else settings_of(found),
            "fault": found.fault or None,
        }
        print(json.dumps(data, indent=2))
        return
    print("\n".join(_told(found, standing)), file=stream or sys.stdout)


def _told(found: Fingerprint, standing: TrustState) -> Iterator[str]:
    """What would take effect, in full, every character of it visible."""
    from agentcli.app.trust import settings_of
    from agentcli.security.trust import PROJECT_CONFIG, TOOL_SERVERS

    folder = _line(str(found.workspace))
    if found.fault:
        yield f"{folder} can't be trusted: {_line(found.fault)}"
        return
    if not found.files:
        yield f"{folder} holds nothing that would need trust"
        return
    yield f"{folder} brings along what takes effect {'now' if standing.trusted else 'if trusted'}:"
    for name in standing.changed:
        yield f"  changed since you trusted it: {_line(name)}"
    for key, value in settings_of(found).items():
        yield from _setting(key, value)
    if TOOL_SERVERS in found.contents:
        yield f"  {TOOL_SERVERS} (tool servers)"
        yield from _block(found.contents[TOOL_SERVERS].decode("utf-8", "replace"))
    for name in found.files:
        if name not in (PROJECT_CONFIG, TOOL_SERVERS):
            yield f"  file {_line(name)}"


def _setting(key: str, value: Any) -> Iterator[str]:
    if not key.startswith("hooks.") or not isinstance(value, list):
        yield f"  sets {_line(key)} = {_line(json.dumps(value, ensure_ascii=False, default=str))}"
        return
    for hook in value:
        if isinstance(hook, dict):
            matcher = f" on {hook['matcher']}" if hook.get("matcher") else ""
            yield f"  runs as a hook, at {_line(key.removeprefix('hooks.') + matcher)}:"
            yield from _block(str(hook.get("command", "")))


def _block(text: str) -> Iterator[str]:
    return (f"  │ {_line(line)}" for line in text.rstrip("\n").split("\n"))


def _line(text: str) -> str:
    from agentcli.ui.literal import visible

    return visible(text)
