"""`agent trust`: what a folder brings along, and whether it may take effect."""

from __future__ import annotations

import json
import os
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agentcli.cli.session_common import Json, confirmed
from agentcli.programs import person_environ

if TYPE_CHECKING:
    from agentcli.config import LoadedSettings
    from agentcli.hook_setup import Brought
    from agentcli.security.trust import Fingerprint, Standing, TrustStore

Answer = Literal["yes", "no", "never"]
Asker = Callable[["Fingerprint", "Standing"], Answer]
STORE = "trust.json"


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
    from agentcli.errors import ConfigError, UsageError
    from agentcli.security.trust import fingerprint

    if show + revoke + list_all > 1:
        raise UsageError("--show, --revoke and --list: one of them")
    store = _store(person_environ())
    if list_all:
        return _list(store, as_json)
    workspace = _existing(folder)
    if revoke:
        return _revoke(store, workspace, as_json)
    found = fingerprint(workspace)
    if show:
        _print(found, store.standing(found), as_json)
        return 0
    if _inside_session(person_environ()):
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
    from agentcli.errors import ConfigError, UsageError
    from agentcli.wiring import resolve_workspace

    try:
        return resolve_workspace(folder)
    except ConfigError as error:
        raise UsageError(error.message, hint="see: agent trust --help") from error


@dataclass(frozen=True)
class Loaded:
    """Settings with what the folder may add to them, and what it brings for hooks."""

    settings: LoadedSettings
    brought: Brought


def load_with_trust(
    environ: Mapping[str, str],
    workspace: Path,
    flags: Mapping[str, Any] | None = None,
    ask: Asker | None = None,
) -> Loaded:
    """The settings in force in `workspace`. If it brings something along that is not trusted as it
    is now, `ask` decides; without one, it is left out and a notice says so. What takes effect is
    what was compared: each file is read once. Raises ConfigError."""
    from agentcli.config import load_settings
    from agentcli.hook_setup import NOTHING_BROUGHT, Brought
    from agentcli.security.trust import HOOK_FOLDER, PROJECT_CONFIG, Standing, fingerprint

    found = fingerprint(workspace)
    store = _store(environ)
    standing = store.standing(found) if found.files or found.fault else Standing()
    trusted = standing.trusted
    askable = _wants_trust(found) and not standing.never and not _inside_session(environ)
    if ask is not None and askable and not trusted:
        answer = ask(found, standing)
        trusted = answer == "yes"
        if trusted:
            store.trust(found)
        elif answer == "never":
            store.never_ask(workspace)
            standing = replace(standing, never=True)
    if not trusted:
        loaded = load_settings(environ, workspace, flags, rule_fault=_rule_fault)
        notices = () if standing.never else _notices(found, standing, loaded.notices)
        return Loaded(replace(loaded, notices=notices), NOTHING_BROUGHT)
    loaded = load_settings(
        environ, workspace, flags, trusted=found.contents.get(PROJECT_CONFIG, b"")
    )
    files = {n: data for n, data in found.contents.items() if n.startswith(f"{HOOK_FOLDER}/")}
    return Loaded(loaded, Brought(loaded.project_hooks, files, found.runnable))


def ask_trust(found: Fingerprint, standing: Standing) -> Answer:
    """Show the person at the terminal what `found` would do, and ask. The end of input is a no, and
    so is a terminal that is gone; an interrupt passes through."""
    try:
        return _asked_at_terminal(found, standing)
    except (OSError, termios.error):
        return "no"


def _asked_at_terminal(found: Fingerprint, standing: Standing) -> Answer:
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


def _store(environ: Mapping[str, str]) -> TrustStore:
    from agentcli.config import state_home
    from agentcli.security.trust import TrustStore

    return TrustStore(state_home(environ) / STORE)


def _inside_session(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("AGENT_SESSION_ID"))


def _wants_trust(found: Fingerprint) -> bool:
    """Whether it holds more than settings that only tighten."""
    from agentcli.config import beyond_tightening
    from agentcli.errors import ConfigError
    from agentcli.security.trust import PROJECT_CONFIG

    if any(name != PROJECT_CONFIG for name in found.files):
        return True
    try:
        return any(beyond_tightening(_settings_of(found)))
    except ConfigError:
        # What can't be read takes no effect, so there is nothing to ask about.
        return False


def _rule_fault(text: str) -> str:
    """Why a rule of a project is none; "" if it is one."""
    from agentcli.errors import ConfigError
    from agentcli.security.rules import parse_rule

    try:
        parse_rule(text, "deny", "its rule")
    except ConfigError as error:
        return error.message
    return ""


def _settings_of(found: Fingerprint) -> dict[str, Any]:
    from agentcli.config import project_values
    from agentcli.security.trust import PROJECT_CONFIG

    text = found.contents.get(PROJECT_CONFIG, b"")
    return project_values(text, str(found.workspace / PROJECT_CONFIG))


def _notices(found: Fingerprint, standing: Standing, notices: Any) -> tuple[str, ...]:
    where = f"{found.workspace}:"
    if found.fault:
        return (*notices, f"{where} can't be trusted: {found.fault}")
    if standing.changed:
        names = ", ".join(standing.changed)
        said = f"{where} no longer trusted, as these files changed: {names}; see agent trust"
        return (*notices, said)
    if not notices and _wants_trust(found):
        return (f"{where} not trusted, so its hooks, tool servers and skills: see agent trust",)
    return tuple(notices)


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


def _print(found: Fingerprint, standing: Standing, as_json: bool, stream: Any = None) -> None:
    if as_json:
        data = {
            "workspace": str(found.workspace),
            "trusted": standing.trusted,
            "changed": standing.changed,
            "files": found.files,
            "settings": {} if found.fault else _settings_of(found),
            "fault": found.fault or None,
        }
        print(json.dumps(data, indent=2))
        return
    print("\n".join(_told(found, standing)), file=stream or sys.stdout)


def _told(found: Fingerprint, standing: Standing) -> Iterator[str]:
    """What would take effect, in full, every character of it visible."""
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
    for key, value in _settings_of(found).items():
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
    from agentcli.ui.exact import visible

    return visible(text)
