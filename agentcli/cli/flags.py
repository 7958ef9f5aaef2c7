"""The flags that `agent run` and `agent resume` share, each declared once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from agentcli.cli.options import Assignments, option
from agentcli.errors import UsageError

_FORMATS = "text|json|stream-json"
_EFFORTS = "none|minimal|low|medium|high|xhigh|max"
_EVIDENCE = "tests"
_MODES = "ask|auto-edit|plan|yolo"
_TIME = re.compile(r"(\d+(?:\.\d+)?)([smh]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


TryCount = Annotated[
    int | None,
    option(
        "--tries N",
        "Make N tries side by side, in copies; the best that passes --check is kept.",
        min=1,
        max=16,
    ),
]
TryModels = Annotated[
    list[str] | None,
    option("--try-model MODEL", "Models for the tries, in turn; without --tries, one try each."),
]


@dataclass(frozen=True)
class Flags:
    """The values of the flags as given; None or empty for those left out."""

    model: Annotated[
        str | None,
        option(
            "--model, -m PROVIDER/MODEL",
            "Model to use, or as much of its name as fits only one: sonnet, gpt-5.5.",
        ),
    ] = None
    effort: Annotated[
        str | None,
        option(f"--effort {_EFFORTS}", "How much the model reasons, or the nearest it can."),
    ] = None
    folder: Annotated[str | None, option("--cd, -C DIR", "Folder to work in.")] = None
    add_dir: Annotated[
        list[str] | None, option("--add-dir DIR", "Another folder to write to; repeatable.")
    ] = None
    share_tmp: Annotated[
        bool, option("--share-tmp", "Use the real /tmp, not one of the session's own.")
    ] = False
    approval: Annotated[str | None, option(f"--approval {_MODES}", "What runs unasked.")] = None
    yolo: Annotated[bool, option("--yolo", "Same as --approval yolo.")] = False
    allow: Annotated[
        list[str] | None, option("--allow RULE", 'Never ask for these: "bash(npm test:*)".')
    ] = None
    deny: Annotated[list[str] | None, option("--deny RULE", "Never run these; repeatable.")] = None
    no_sandbox: Annotated[bool, option("--no-sandbox", "Run commands with all your rights.")] = (
        False
    )
    max_turns: Annotated[
        int | None, option("--max-turns N", "Most model replies; then exit 6.", min=1)
    ] = None
    max_budget_usd: Annotated[
        float | None,
        option(
            "--max-budget-usd USD", "Most that the whole session may cost; then exit 6.", min=0.0001
        ),
    ] = None
    max_time: Annotated[
        str | None, option("--max-time TIME", "Longest run: 90, 10m, 1h; then exit 6.")
    ] = None
    no_summary: Annotated[
        bool, option("--no-summary", "At a limit, end without a last summary.")
    ] = False
    check: Annotated[
        str | None,
        option(
            "--check COMMAND",
            'Must pass at the end, such as "make test"; a failure goes back to the model.',
        ),
    ] = None
    check_retries: Annotated[
        int | None,
        option(
            "--check-retries N", "How often it may fail again, 3 by default; then exit 1.", min=0
        ),
    ] = None
    require_evidence: Annotated[
        str | None,
        option(
            f"--require-evidence {_EVIDENCE}",
            "Exit 1 unless tests passed after the last change.",
        ),
    ] = None
    output_schema: Annotated[
        Path | None,
        option("--output-schema FILE", "JSON Schema that the answer must fit; else exit 7."),
    ] = None
    output_format: Annotated[
        str,
        option(
            f"--output-format {_FORMATS}",
            "What goes to stdout: the answer, a JSON object, or JSON lines as it works.",
        ),
    ] = "text"
    json: Annotated[bool, option("--json", "Same as --output-format stream-json.")] = False
    answer_file: Annotated[
        Path | None, option("--output-last-message, -o FILE", "Write the answer to FILE too.")
    ] = None
    images: Annotated[
        list[Path] | None, option("--image, -i FILE", "Show the model an image; repeatable.")
    ] = None
    no_stdin: Annotated[
        bool,
        option(
            "--no-stdin",
            "Never read stdin, nor what is typed while it works; needed in loops that read "
            "lines from a file.",
        ),
    ] = False
    assignments: Assignments = None
    plain: Annotated[
        bool, option("--plain", "Lines only, nothing redrawn: for screen readers.")
    ] = False
    """`main` reads this flag."""
    quiet: Annotated[bool, option("--quiet, -q", "Only errors on stderr.")] = False
    verbose: Annotated[bool, option("--verbose, -v", "Reasoning and whole outputs too.")] = False

    def __post_init__(self) -> None:
        """Check the values. Raises UsageError for an invalid one."""
        _require("--output-format", self.output_format, _FORMATS)
        _require("--effort", self.effort, _EFFORTS)
        _require("--approval", self.approval, _MODES)
        _require("--require-evidence", self.require_evidence, _EVIDENCE)
        if self.check is not None:
            require_check(self.check)
        if self.yolo and self.approval not in (None, "yolo"):
            raise UsageError(f"--yolo and --approval {self.approval} contradict each other")
        if self.max_time is not None:
            seconds("--max-time", self.max_time)

    @property
    def format(self) -> str:
        return "stream-json" if self.json else self.output_format

    @property
    def requires(self) -> str:
        """The first flag given that sets a requirement; "" for none."""
        given = {
            "--check": self.check,
            "--check-retries": self.check_retries,
            "--require-evidence": self.require_evidence,
            "--output-schema": self.output_schema,
        }
        return next((flag for flag, value in given.items() if value is not None), "")

    def settings(self) -> dict[str, Any]:
        """Return the settings that are given as flags, by dotted key."""
        max_time = self.max_time
        given = {
            "model.name": self.model,
            "model.effort": self.effort,
            "agent.max_turns": self.max_turns,
            "agent.max_budget_usd": self.max_budget_usd,
            "agent.max_time_s": None if max_time is None else seconds("--max-time", max_time),
            "agent.summary_at_limit": False if self.no_summary else None,
            "agent.approval": "yolo" if self.yolo else self.approval,
            "security.allow": self.allow,
            "security.deny": self.deny,
            "run.check": self.check,
            "run.check_retries": self.check_retries,
            "run.require_evidence": self.require_evidence,
            "sandbox.layer": "none" if self.no_sandbox else None,
            "sandbox.writable": self.add_dir,
            "sandbox.share_tmp": True if self.share_tmp else None,
        }
        return {key: value for key, value in given.items() if value is not None}


def with_flags(command: Callable[..., int], only: Collection[str] = ()) -> Callable[..., int]:
    """Add an option to `command` for each field of Flags, or only for those in `only`; its
    parameter `flags` receives them all."""
    own = inspect.signature(command, eval_str=True)
    hints = get_type_hints(Flags, include_extras=True)
    chosen = [field for field in fields(Flags) if not only or field.name in only]
    shared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in chosen
    ]

    @wraps(command)
    def with_shared(**values: Any) -> int:
        given = {field.name: values.pop(field.name) for field in chosen}
        return command(**values, flags=Flags(**given))

    parameters = [each for each in own.parameters.values() if each.name != "flags"] + shared
    with_shared.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_shared.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_shared


def _require(flag: str, value: str | None, choices: str) -> None:
    if value is not None and value not in choices.split("|"):
        raise UsageError(f"{flag} {value}: it must be one of {choices.replace('|', ', ')}")


def require_check(command: str) -> None:
    """Raise UsageError for an empty check, which would always pass."""
    if not command.strip():
        raise UsageError("--check is empty", hint='it takes a command, as in --check "make test"')


def seconds(flag: str, text: str) -> float:
    """Return the seconds in `text`, a time such as 90, 10m or 1h. Raises UsageError."""
    found = _TIME.fullmatch(text.strip())
    if found is None or float(found[1]) == 0:
        raise UsageError(f"{flag} {text}: it must be a time such as 90, 10m or 1h")
    return float(found[1]) * _SECONDS[found[2]]
