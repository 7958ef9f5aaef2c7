"""Builds a session's hooks."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentcli.app.configuration.places import user_file
from agentcli.hooks.runner import HOOK_MARK, HookRunner
from agentcli.hooks.session_hooks import Hook, SessionHooks
from agentcli.sandbox.selection import Sandbox
from agentcli.settings import HookSettings, Settings
from agentcli.system.programs import distrusted, sanitize_environment

FOLDER = ".agent/hooks"
"""In a project, the folder of files that its hooks run; each session gets a trusted copy."""
COPY_VARIABLE = "AGENT_HOOKS"


@dataclass(frozen=True)
class ProjectHooks:
    """The hooks of a trusted project. `commands`: event and command of each hook. `files`: the
    trusted content of its hook files, by path within the project. `runnable`: the executable
    ones."""

    commands: frozenset[tuple[str, str]] = frozenset()
    files: Mapping[str, bytes] = field(default_factory=dict)
    runnable: frozenset[str] = frozenset()


NO_PROJECT_HOOKS = ProjectHooks()


@dataclass(frozen=True)
class HookContext:
    """Where a session's hooks run. `environ` is the user's environment without keys of models;
    `contained` is the part of it that commands have."""

    workspace: Path
    session_folder: Path
    sandbox: Sandbox
    environ: Mapping[str, str]
    contained: Mapping[str, str]


def session_hooks(
    settings: Settings, context: HookContext, project_hooks: ProjectHooks
) -> SessionHooks | None:
    """Return the hooks of a session; None if there are none, or inside a hook: a hook that runs an
    agent must not make that agent run the hook again."""
    by_event = {name: getattr(settings.hooks, name) for name in type(settings.hooks).model_fields}
    if HOOK_MARK in context.environ or not any(by_event.values()):
        return None
    free = HookRunner(
        context.workspace, sanitize_environment(context.environ, distrusted()).environ
    )
    readable = [folder for folder in [_own_folder(context.environ)] if folder.is_dir()]
    held = HookRunner(context.workspace, context.contained, _showing(context.sandbox, readable))
    copy = _Copy(context, project_hooks)

    def bound(event: str, hook: HookSettings) -> Hook:
        told = hook.command, hook.matcher, hook.timeout_s
        if (event, hook.command) in project_hooks.commands:
            return Hook(*told, copy.runner, copy.command)
        return Hook(*told, held if hook.sandboxed else free)

    return SessionHooks(
        {event: [bound(event, hook) for hook in hooks] for event, hooks in by_event.items()},
        str(context.workspace),
    )


def free_environment(
    environ: Mapping[str, str], secret_names: Collection[str], session_id: str
) -> dict[str, str]:
    """Return the user's environment without keys of models."""
    kept = {name: value for name, value in environ.items() if name not in secret_names}
    return {**kept, "AGENT_SESSION_ID": session_id}


class _Copy:
    """A copy of the project's hook files as they were trusted, where only the agent can write. The
    sandbox hides the originals in the workspace: commands may have changed them."""

    def __init__(self, context: HookContext, project_hooks: ProjectHooks) -> None:
        self._project_hooks = project_hooks
        self._workspace = context.workspace
        self._folder = context.session_folder / "hooks"
        self._made = False
        environment = {**context.contained, COPY_VARIABLE: str(self._folder)}
        sandbox = _showing(context.sandbox, [self._folder])
        if project_hooks.files:
            sandbox = _hiding(sandbox, context.workspace / FOLDER)
        self.runner = HookRunner(context.workspace, environment, sandbox)

    def command(self, command: str) -> str:
        """Return `command` with paths to the project's hook files replaced by those of the copy.
        Raises OSError."""
        from agentcli.security.commands.shell_words import decode, tokens

        self._make()
        original = self._workspace / FOLDER
        out, at = "", 0
        for token in tokens(command) or ():
            word = decode(command[token.start : token.end]).text
            path = Path(os.path.normpath(self._workspace / word)) if word else None
            if path is not None and path.is_relative_to(original):
                out += command[at : token.start]
                out += shlex.quote(str(self._folder / path.relative_to(original)))
                at = token.end
        return out + command[at:]

    def _make(self) -> None:
        if self._made:
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700)
        for name, data in self._project_hooks.files.items():
            path = self._folder / Path(name).relative_to(FOLDER)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o500 if name in self._project_hooks.runnable else 0o400)
        self._made = True


def _own_folder(environ: Mapping[str, str]) -> Path:
    return user_file(environ).with_name("hooks")


def _showing(sandbox: Sandbox, folders: list[Path]) -> Sandbox:
    """Return the sandbox with `folders` readable, which commands don't see."""
    scope = sandbox.scope
    return replace(sandbox, scope=replace(scope, readable=(*scope.readable, *folders)))


def _hiding(sandbox: Sandbox, folder: Path) -> Sandbox:
    scope = sandbox.scope
    protected = tuple(path for path in scope.protected if path != folder)
    hidden = (*scope.hidden, folder)
    return replace(sandbox, scope=replace(scope, protected=protected, hidden=hidden))
