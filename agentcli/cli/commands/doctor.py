"""Check what a run needs: programs, the shell, keys, the model.

Exits 3 when something is missing. Only --ask tells for sure whether an account has credit.

Examples:
  agent doctor
  agent doctor --ask
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated, Literal

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.configuration.places import (
    MANAGED_FILE,
    PROJECT_FILE,
    keys_file,
    stored_keys,
    user_file,
)
from agentcli.browser.browser import BrowserMissing, find_browser
from agentcli.cli.builders import builder_for
from agentcli.cli.options import Json, option
from agentcli.cli.provider_probe import (
    ProviderAnswer,
    catalog_with,
    model_facts,
    probe_provider,
    probe_providers,
    told_facts,
    try_model,
)
from agentcli.cli.user_paths import here
from agentcli.errors import AgentError, ConfigError, os_error_text
from agentcli.llm.catalog import Catalog
from agentcli.llm.provider import Facts
from agentcli.sandbox.environment import command_environment
from agentcli.sandbox.probe_driver import ATTACKS
from agentcli.sandbox.probes import probe, surprises
from agentcli.sandbox.scope_finder import find_access_scope
from agentcli.sandbox.selection import Sandbox, choose_sandbox
from agentcli.sessions import FILES, selected_store
from agentcli.sessions.library import library_of
from agentcli.shell.shell import Shell
from agentcli.system.programs import distrusted, find_program, sanitize_environment, user_environ
from agentcli.ui.summary import count
from agentcli.ui.text import folded, say
from agentcli.workspace.private import OutputFolder

_VERSION_LIMIT_S = 5
_SHELL_LIMIT_S = 10
_LEAST_FREE_MB = 100
_INDENT = 10
_HINTS = {
    "refused": "check the key and where it comes from",
    "no_credit": "add credit to the account, or use another model: -m provider/model",
    "unreachable": "is the server up, and the address right?",
}


@dataclass(frozen=True)
class Check:
    """The result of a check; unless `status` is ok, `hint` says what to do."""

    name: str
    status: Literal["ok", "warning", "failed"]
    detail: str
    hint: str = ""


def doctor(
    asking: Annotated[
        bool, option("--ask", "Ask the model for one word; costs a fraction of a cent.")
    ] = False,
    as_json: Json = False,
) -> int:
    faults: list[ConfigError] = []
    builder = builder_for(here(), faults.append)
    checks = []
    on_screen = sys.stdout.isatty()
    for check in _checks(builder, faults, asking):
        checks.append(check)
        if not as_json:
            hint = f"\n{'':<{_INDENT}}{check.hint}" if check.hint and check.status != "ok" else ""
            shown = f"{check.status:<{_INDENT}}{check.name}: {check.detail}{hint}"
            say(folded(shown, get_terminal_size().columns, _INDENT) if on_screen else shown)
    if as_json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    return 3 if any(check.status == "failed" for check in checks) else 0


def _checks(builder: AgentBuilder, faults: list[ConfigError], asking: bool) -> Iterator[Check]:
    yield Check("python", "ok", f"{platform.python_version()} ({sys.executable})")
    bash = _program("bash", "failed", "the bash tool needs it")
    yield bash
    if bash.status == "ok":
        yield from _try("shell", lambda: iter([_shell(builder)]))
    yield _path()
    yield _program("git", "warning", "repositories can't be read without it")
    yield _program("rg", "warning", "searching is slower without ripgrep")
    if builder.settings.tools.enable_browsing:
        yield _browser(builder.settings.tools.browser)
    for fault in faults:
        yield Check("settings", "failed", fault.message, fault.hint)
    if not faults:
        yield Check("settings", "ok", _settings_files(builder))
    yield from _keys(builder)
    storage = _storage(builder.home)
    yield storage
    yield from _sessions(builder.home)
    # Even if nothing can be written to the home, the remaining checks are worth making.
    place = builder.home if storage.status == "ok" else None
    yield from _try("sandbox", lambda: _sandbox(builder, place))
    yield from _providers(builder, asking)


def _try(name: str, checks: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """Yield the checks, or a failed one that says what kept them from being made."""
    try:
        yield from checks()
    except OSError as error:
        detail = f"can't be tried out: {os_error_text(error)}"
        yield Check(name, "failed", detail, "free some space or fix the permissions there")


def _path() -> Check:
    """Name the folders of PATH from which agent itself runs no programs."""
    ours = os.environ["PATH"].split(os.pathsep)
    on_path = user_environ().get("PATH", "").split(os.pathsep)
    left_out = [folder for folder in dict.fromkeys(on_path) if folder not in ours]
    if not left_out:
        return Check("path", "ok", "commands can write to no folder on it")
    folders = ", ".join(folder or "(empty)" for folder in left_out)
    return Check("path", "ok", f"agent itself runs no program from: {folders}")


def _browser(chosen: str) -> Check:
    try:
        return Check("browser", "ok", find_browser(chosen))
    except BrowserMissing as missing:
        return Check("browser", "warning", str(missing), missing.remedy)


def _program(name: str, without: Literal["warning", "failed"], why: str) -> Check:
    path = find_program(name)
    if path is None:
        return Check(name, without, "not found", why)
    try:
        done = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_LIMIT_S,
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name, without, f"{path} does not run: {error}", why)
    first_line = (done.stdout.splitlines() or [""])[0]
    return Check(name, "ok", f"{first_line} ({path})")


def _shell(builder: AgentBuilder) -> Check:
    """Check that the bash tool's shell starts, keeps its state and has no keys."""
    broken = partial(Check, "shell", "failed", hint="the bash tool needs it")
    hidden = builder.registry().key_variables()
    with tempfile.TemporaryDirectory(prefix="agent-doctor-") as name:
        scratch, outputs = Path(name, "shell"), Path(name, "outputs")
        scratch.mkdir()
        outputs.mkdir()
        shell = Shell(
            cwd=str(builder.workspace),
            env=sanitize_environment(
                command_environment(builder.environ, hidden, ""), distrusted()
            ).environ,
            scratch=scratch,
            outputs=OutputFolder(outputs),
        )
        try:
            shell.run("agent_doctor=kept", timeout=_SHELL_LIMIT_S)
            done = shell.run(
                'echo "$agent_doctor"; id -un 2>/dev/null || id -u; compgen -e',
                timeout=_SHELL_LIMIT_S,
            )
        except (OSError, ValueError) as error:
            return broken(f"does not start: {error}")
        finally:
            shell.close()
    kept, user, *variables = done.output.split() or [""] * 2
    if kept != "kept":
        said = done.output.strip()[:200] or f"exit {done.exit_code}"
        return broken(f"forgets between commands: {said}")
    if seen := sorted(hidden.intersection(variables)):
        return Check(
            "shell", "warning", f"commands can read {', '.join(seen)}", "agent does not pass it on"
        )
    return Check("shell", "ok", f"keeps its state; runs as {user}, without your models' keys")


def _sandbox(builder: AgentBuilder, place: Path | None) -> Iterator[Check]:
    """Check which sandbox layer is used, why no stronger one is, and what it lets through when
    tried out. The trial runs in a folder in `place`, by default in that for temporary files. Raises
    OSError when it can't be created there."""
    settings = builder.settings.sandbox
    with tempfile.TemporaryDirectory(prefix="doctor-", dir=place) as name:
        own = (builder.home, user_file(builder.environ).parent)
        scope = find_access_scope(
            builder.workspace,
            builder.environ,
            agent_files=own,
            tmp=Path(name),
            confined=settings.read == "workspace",
        )
        try:
            sandbox = choose_sandbox(
                settings.layer, scope, network=settings.network, cache=builder.home
            )
        except ConfigError as error:
            yield Check("sandbox", "failed", error.message, error.hint)
            return
        detail = "; ".join((sandbox.layer, *sandbox.notes))
        if not sandbox.contains:
            hint = "install bubblewrap; until then only --no-sandbox runs commands unattended"
            yield Check("sandbox", "warning", detail, hint)
            return
        yield Check("sandbox", "ok", detail)
        yield _attack(sandbox, Path(name))


def _attack(sandbox: Sandbox, folder: Path) -> Check:
    """Attack the sandbox with the network off, whatever the settings say: what to expect of a layer
    is known only for that case."""
    try:
        found = probe(replace(sandbox, network=False), folder)
    except OSError as error:
        return Check("sandbox tried out", "failed", str(error), "try another: sandbox.layer")
    stopped = sum(not found[name] for name in ATTACKS)
    works = ", ".join(name for name, possible in found.items() if possible)
    detail = f"{stopped} of {len(ATTACKS)} attacks stopped; possible: {works}"
    if unexpected := surprises(found, sandbox):
        detail = f"{detail}; unexpected: {', '.join(unexpected)}"
        return Check("sandbox tried out", "failed", detail, "choose another: sandbox.layer")
    return Check("sandbox tried out", "ok", detail)


def _settings_files(builder: AgentBuilder) -> str:
    files = [MANAGED_FILE, user_file(builder.environ), builder.workspace / PROJECT_FILE]
    found = [str(path) for path in files if path.exists()]
    return ", ".join(found) or f"defaults (none at {user_file(builder.environ)})"


def _keys(builder: AgentBuilder) -> Iterator[Check]:
    """Check the keys that `agent setup` stored, if there are any."""
    kept = stored_keys(builder.environ)
    if kept.fault:
        yield Check("keys", "failed", kept.fault)
    elif kept.values:
        yield Check("keys", "ok", f"{', '.join(kept.values)} in {keys_file(builder.environ)}")


def _sessions(home: Path) -> Iterator[Check]:
    """Check that the database can be used, if sessions are kept in one."""
    try:
        if selected_store(home) != FILES:
            yield Check("sessions", "ok", library_of(home).shown)
    except AgentError as error:
        yield Check("sessions", "failed", error.message, error.hint)


def _storage(home: Path) -> Check:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = home / f".doctor-{os.getpid()}"
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        hint = "set AGENT_HOME to a writable folder"
        return Check("storage", "failed", f"{home}: {error.strerror}", hint)
    free = shutil.disk_usage(home).free // 1_000_000
    detail = f"{home} ({free:,} MB free)"
    if free < _LEAST_FREE_MB:
        return Check("storage", "warning", detail, "make room there: a session may need more")
    return Check("storage", "ok", detail)


def _providers(builder: AgentBuilder, asking: bool) -> Iterator[Check]:
    registry = builder.registry()
    found = list(probe_providers(registry))
    told = told_facts(registry, found)
    for each in found:
        if each.error:
            yield Check(each.provider, "warning", each.error, _HINTS.get(each.standing, ""))
        else:
            yield Check(each.provider, "ok", _answers(each, told))
    try:
        name = registry.choose(builder.settings.model.name)
        registry.endpoint(name)
    except ConfigError as error:
        yield Check("model", "failed", error.message, error.hint)
        return
    provider = name.partition("/")[0]
    answer: ProviderAnswer | None
    if asking:
        answer = try_model(registry, name, Catalog(builder.settings.prices))
    else:
        answer = next((r for r in found if r.provider == provider), None)
        if provider != "scripted":
            answer = answer or probe_provider(registry, provider)
    if answer is not None and answer.error:
        hint = _HINTS.get(answer.standing, "check the key and the address")
        yield Check("model", "failed", f"{name}: {answer.error}", hint)
    else:
        facts = told.get(name) or registry.facts(name)
        catalog = catalog_with(builder.settings.prices, {name: facts})
        detail = f"{name} ({_facts(catalog, name)}{', answers' * asking})"
        yield Check("model", "warning" if facts.message else "ok", detail, facts.message)


def _answers(answer: ProviderAnswer, told: Mapping[str, Facts]) -> str:
    """Return how many models a provider has, and how many of them get tools as text."""
    said = [told.get(f"{answer.provider}/{model}", Facts()) for model in answer.models]
    as_text = sum(facts.changes.get("tools") == "text" for facts in said)
    models = f"answers, {count(len(said), 'model')}"
    if not as_text:
        return models
    which = "its chat template" if len(said) == 1 else f"the chat template of {as_text}"
    return f"{models}; {which} does not know tools"


def _facts(catalog: Catalog, name: str) -> str:
    window, prompt, output = model_facts(catalog, name)
    context = "context unknown" if window == "-" else f"{window} tokens of context"
    price = "price unknown" if prompt == "-" else f"${prompt} in and ${output} out per million"
    return f"{context}, {price}"


COMMAND = doctor
