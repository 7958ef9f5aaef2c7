"""Let a folder's settings, hooks, tool servers and skills apply.

They are trusted as they are now: when one of these files changes, the folder is no longer trusted.

Examples:
  agent trust
  agent trust --list
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from agentcli.app.configuration.places import resolve_workspace
from agentcli.app.configuration.trust import require_outside_session, settings_of, trust_store
from agentcli.cli.options import Json, Yes, argument, option
from agentcli.cli.terminal import confirmed
from agentcli.cli.user_questions import would_take_effect
from agentcli.errors import ConfigError, UsageError
from agentcli.security.trust import Fingerprint, TrustState, TrustStore, fingerprint
from agentcli.system.programs import user_environ
from agentcli.ui.text import reveal_hidden


def trust(
    folder: Annotated[str | None, argument("DIR", "The one you are in if left out.")] = None,
    show: Annotated[bool, option("--show", "Only show what would take effect.")] = False,
    revoke: Annotated[bool, option("--revoke", "Stop trusting it.")] = False,
    list_all: Annotated[bool, option("--list", "All folders you trust.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    if show + revoke + list_all > 1:
        raise UsageError("--show, --revoke and --list can't be combined")
    store = trust_store(user_environ())
    if list_all:
        return _list(store, as_json)
    workspace = _existing(folder)
    if revoke:
        return _revoke(store, workspace, as_json)
    found = fingerprint(workspace)
    if show:
        _print(found, store.state_of(found), as_json)
        return 0
    require_outside_session(user_environ(), "no session may decide what is trusted")
    if found.fault:
        raise ConfigError(f"{workspace} can't be trusted: {found.fault}")
    state = store.state_of(found)
    if not yes or not as_json:
        _print(found, state, as_json=False, stream=sys.stderr)
    agreed = state.trusted or not found.files or confirmed("trust this folder?", yes)
    if agreed and found.files and not state.trusted:
        store.trust(found)
    if as_json:
        _print(found, store.state_of(found), as_json=True)
    elif agreed and found.files:
        print(f"{reveal_hidden(str(workspace))} is trusted, as it is now")
    elif not agreed:
        print(f"{reveal_hidden(str(workspace))} is not trusted")
    return 0 if agreed else 1


def _existing(folder: str | None) -> Path:
    try:
        return resolve_workspace(folder)
    except ConfigError as error:
        raise UsageError(error.message, hint="see: agent trust --help") from error


def _list(store: TrustStore, as_json: bool) -> int:
    folders = store.folders()
    if as_json:
        print(json.dumps(folders, indent=2))
        return 0
    for folder, since in folders.items():
        print(f"{reveal_hidden(folder)}  # since {since}")
    if not folders:
        print("you trust no folder yet", file=sys.stderr)
    return 0


def _revoke(store: TrustStore, workspace: Path, as_json: bool) -> int:
    known = store.revoke(workspace)
    if as_json:
        print(json.dumps({"workspace": str(workspace), "trusted": False, "was_known": known}))
    else:
        print(f"{reveal_hidden(str(workspace))} is {'no longer' if known else 'not'} trusted")
    return 0


def _print(found: Fingerprint, state: TrustState, as_json: bool, stream: Any = None) -> None:
    if as_json:
        data = {
            "workspace": str(found.workspace),
            "trusted": state.trusted,
            "changed": state.changed,
            "files": found.files,
            "settings": {} if found.fault else settings_of(found),
            "fault": found.fault or None,
        }
        print(json.dumps(data, indent=2))
        return
    print("\n".join(would_take_effect(found, state)), file=stream or sys.stdout)


COMMAND = trust
