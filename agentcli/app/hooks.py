"""Builds a session's hooks."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from agentcli.app.configuration.places import user_file
from agentcli.app.containment import Containment, with_readable
from agentcli.hooks.runner import HOOK_MARK, HookRunner
from agentcli.hooks.session_hooks import Hook, SessionHooks
from agentcli.sandbox.selection import Sandbox
from agentcli.security.trust import HOOK_FOLDER
from agentcli.settings import HookSettings
from agentcli.system.programs import distrusted, sanitize_environment
from agentcli.workspace.private import remove_tree

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


def session_hooks(containment: Containment, project_hooks: ProjectHooks) -> SessionHooks | None:
    """Return the hooks of a session; None if there are none, or inside a hook: a hook that runs an
    agent must not make that agent run the hook again."""
    hooks = containment.settings.hooks
    by_event = {name: getattr(hooks, name) for name in type(hooks).model_fields}
    if HOOK_MARK in containment.environ or not any(by_event.values()):
        return None
    workspace, sandbox = containment.workspace, containment.sandbox
    free = HookRunner(workspace, _free_environment(containment))
    own = user_file(containment.environ).with_name("hooks")
    shown = with_readable(sandbox, [own]) if own.is_dir() else sandbox
    held = HookRunner(workspace, containment.environment, shown)
    copy = _Copy(containment, project_hooks)

    def bound(event: str, hook: HookSettings) -> Hook:
        told = hook.command, hook.matcher, hook.timeout_s
        if (event, hook.command) in project_hooks.commands:
            return Hook(*told, copy.runner, copy.command)
        return Hook(*told, held if hook.sandboxed else free)

    return SessionHooks(
        {event: [bound(event, hook) for hook in hooks] for event, hooks in by_event.items()},
        str(workspace),
    )


def _free_environment(containment: Containment) -> Mapping[str, str]:
    """Return the environment of hooks outside the sandbox: the user's, without keys of models."""
    environ, keys = containment.environ, containment.keys
    kept = {name: value for name, value in environ.items() if name not in keys}
    marked = {**kept, "AGENT_SESSION_ID": containment.session_folder.name}
    return sanitize_environment(marked, distrusted()).environ


class _Copy:
    """A copy of the project's hook files as they were trusted, where only the agent can write. The
    sandbox hides the originals in the workspace: commands may have changed them."""

    def __init__(self, containment: Containment, project_hooks: ProjectHooks) -> None:
        self._project_hooks = project_hooks
        self._originals = containment.workspace / HOOK_FOLDER
        self._place = containment.session_folder / "hooks"
        environment = {**containment.environment, COPY_VARIABLE: str(self._place)}
        sandbox = with_readable(containment.sandbox, [self._place])
        if project_hooks.files:
            sandbox = _hiding(sandbox, self._originals)
        self.runner = HookRunner(containment.workspace, environment, sandbox)

    def command(self, command: str) -> str:
        """Return `command` with paths to the project's hook files replaced by those of the copy.
        Raises OSError."""
        from agentcli.security.commands.shell_words import decode, tokens

        # The command may also find the copy by its variable.
        folder = self._folder
        out, at = "", 0
        for token in tokens(command) or ():
            word = decode(command[token.start : token.end]).text
            path = Path(os.path.normpath(self.runner.folder / word)) if word else None
            if path is not None and path.is_relative_to(self._originals):
                out += command[at : token.start]
                out += shlex.quote(str(folder / path.relative_to(self._originals)))
                at = token.end
        return out + command[at:]

    @cached_property
    def _folder(self) -> Path:
        """The folder of the copy, which is made on first use."""
        remove_tree(self._place)
        self._place.mkdir(mode=0o700)
        for name, data in self._project_hooks.files.items():
            path = self._place / Path(name).relative_to(HOOK_FOLDER)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o500 if name in self._project_hooks.runnable else 0o400)
        return self._place


def _hiding(sandbox: Sandbox, folder: Path) -> Sandbox:
    scope = sandbox.scope
    protected = tuple(path for path in scope.protected if path != folder)
    hidden = (*scope.hidden, folder)
    return replace(sandbox, scope=replace(scope, protected=protected, hidden=hidden))
