"""What the user requires of a run, checked before anything starts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcli.errors import UsageError
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction
from agentcli.events.requirements import RequirementsObservation
from agentcli.sessions.state import State
from agentcli.settings import RunSettings
from agentcli.system.programs import find_on, find_program

_OF_BASH = frozenset(
    """! ( { [ [[ . : alias bg break builtin case cd command continue coproc declare dirs disown
    echo enable eval exec exit export false fc fg for function getopts hash if jobs kill let local
    mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source test
    time times trap true type typeset ulimit umask unset until wait while""".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class RequirementSpec:
    """Requirements: `recorded` is what the session keeps, `messages` what the model is told."""

    recorded: RequirementsObservation
    messages: tuple[Event, ...] = ()

    def holds(self, state: State) -> bool:
        """Whether exactly this is required already."""
        wanted = self.recorded.model_dump(include={"tests", "check", "retries", "answer_schema"})
        return state.required == wanted


def requirement_spec(
    settings: RunSettings, schema: Path | Mapping[str, Any] | None, environ: Mapping[str, str]
) -> RequirementSpec | None:
    """Return the requirements, None if there are none. `schema` is a file or the content of one.
    Raises UsageError for a check that can't be run, and for an invalid `schema`."""
    answer_schema = _schema(schema) if schema is not None else None
    if not (settings.check or settings.require_evidence or answer_schema is not None):
        return None
    if settings.check:
        require_command(settings.check, environ)
    recorded = RequirementsObservation(
        tests=settings.require_evidence == "tests",
        check=settings.check,
        retries=settings.check_retries if settings.check else 0,
        answer_schema=answer_schema,
    )
    return RequirementSpec(recorded, () if answer_schema is None else (_told(answer_schema),))


def _schema(given: Path | Mapping[str, Any]) -> dict[str, Any]:
    from agentcli.app.checks.answer_schema import checked_schema, load_schema

    if isinstance(given, Path):
        return load_schema(given)
    return checked_schema(dict(given), "output_schema")


def _told(schema: dict[str, Any]) -> MessageAction:
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return MessageAction(
        content="[The answer to this must be one JSON document that fits the JSON Schema below, "
        "with nothing before or after it: as the text of your last reply, or as the answer of "
        f"finish. A program reads it.]\n{text}",
        source=Source.ENVIRONMENT,
    )


def require_command(check: str, environ: Mapping[str, str]) -> None:
    """Raise UsageError if bash can't parse the check, or it begins with a program that does not
    exist. A program given by path may still be created."""
    if fault := _syntax_fault(check):
        raise UsageError(f"--check: bash can't parse it: {fault}")
    from agentcli.security.commands.shell_parse import parse_script

    first = next(iter(parse_script(check).commands), None)
    name = first.words[0] if first is not None and first.words else None
    if name is None or "/" in name or name in _OF_BASH or name not in check:
        return
    if find_on(name, environ.get("PATH")) is None:
        raise UsageError(
            f"--check: there is no command {name!r} here",
            hint='it takes a command for bash, as in --check "pytest -q"',
        )


def _syntax_fault(check: str) -> str:
    """Return the complaint of bash, which executes none of it; "" if it can parse the check."""
    if "\0" in check:
        return "it contains the character NUL"
    if (bash := find_program("bash")) is None:
        return ""
    # The environment is empty: BASH_ENV names a file that would be run.
    done = subprocess.run(
        [bash, "-n"], input=check.encode(errors="replace"), env={}, capture_output=True, timeout=10
    )
    said = done.stderr.decode(errors="replace").strip().split("\n")[0]
    return said.removeprefix(f"{bash}: ") if done.returncode else ""
