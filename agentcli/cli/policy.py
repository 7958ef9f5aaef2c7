"""`agent policy`: what rules would have made of past sessions, and which rules these suggest."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentcli.cli.session_common import Json, here, home

if TYPE_CHECKING:
    from agentcli.events import Action, Event
    from agentcli.security.policy.policy import Policy
    from agentcli.security.policy.rule import Rule

app = typer.Typer(
    help="Rules: try them on past sessions, or have some suggested.", no_args_is_help=True
)

Against = Annotated[
    list[str] | None,
    typer.Option(
        "--against",
        "-a",
        help="Sessions: id, unique start, name, or folder; all: those of this folder.",
        metavar="SESSION",
    ),
]
_ORDER = ("allow", "ask", "deny")


@dataclass(frozen=True)
class Past:
    """An action of a past session that could change something, and what a person said to it."""

    session: str
    workspace: Path
    action: Action
    answer: str

    @property
    def text(self) -> str:
        return str(getattr(self.action, "command", "") or self.action.message)


@app.command("test")
def try_rules(
    rules: Annotated[
        list[str],
        typer.Argument(
            help='A TOML file with [security], or rules: "bash(git push:*)", "deny bash(rm:*)".',
            metavar="RULES…",
        ),
    ],
    against: Against = None,
    as_json: Json = False,
) -> None:
    """What past commands and edits would have been, without a sandbox: allowed, asked, denied."""
    parsed = _rules_of(rules)
    counts: Counter[str] = Counter()
    rows: Counter[tuple[str, str, str]] = Counter()
    records: list[dict[str, Any]] = []
    for past in _past_actions(against):
        decision = _policy(parsed, past.workspace).decide(past.action, ())
        counts[decision.decision] += 1
        rows[decision.decision, past.text, decision.rule] += 1
        records.append(
            {
                "session_id": past.session,
                "event": past.action.id,
                "tool": past.action.kind,
                "text": past.text,
                "decision": decision.decision,
                "rule": decision.rule,
                "reason": decision.reason,
                "answered": past.answer or None,
            }
        )
    totals = {decision: counts[decision] for decision in _ORDER}
    if as_json:
        print(json.dumps({"actions": records, "counts": totals}, indent=2))
        return
    _print_rows(rows)
    print(f"{totals['allow']} allowed, {totals['ask']} asked, {totals['deny']} denied")


def _print_rows(rows: Counter[tuple[str, str, str]]) -> None:
    from agentcli.ui.sanitize import printable

    for decision in _ORDER:
        for (found, text, rule), count in rows.items():
            if found == decision:
                times = f"{count}x" if count > 1 else ""
                line = printable(text.replace("\n", " ⏎ "), multiline=False)
                print(f"{decision:<5} {times:>4}  {line}  [{rule}]")


@app.command("suggest")
def suggest(against: Against = None, as_json: Json = False) -> None:
    """The fewest safe rules for what you approved in past sessions, and nothing you refused."""
    from agentcli.security.policy.rules import parse_grants, split_grants

    past = list(_past_actions(against))
    approved = [each for each in past if each.answer == "allow"]
    refused = [each for each in past if each.answer == "deny"]
    wanted: dict[str, None] = {}
    for each in approved:
        for text in split_grants(_policy((), each.workspace).grant_for(each.action)):
            if not any(_allowed(parse_grants(text), other) for other in refused):
                wanted[text] = None
    chosen = _fewest(list(wanted), approved)
    while guilty := [other for other in refused if _allowed(_joined(chosen), other)]:
        chosen = [text for text in chosen if not _helps(text, chosen, guilty[0])]
    left = [each for each in approved if not _allowed(_joined(chosen), each)]
    if as_json:
        covered = len(approved) - len(left)
        print(json.dumps({"allow": chosen, "covered": covered, "approved": len(approved)}))
        return
    _print_suggestion(chosen, len(approved), len(left))


def _print_suggestion(chosen: Sequence[str], approved: int, left: int) -> None:
    if not approved:
        print("agent: nothing was approved in these sessions", file=sys.stderr)
        return
    if chosen:
        print("[security]\nallow = [")
        for text in chosen:
            print(f"  {json.dumps(text, ensure_ascii=False)},")
        print("]")
    print(f"agent: {approved - left} of {approved} approvals are covered", file=sys.stderr)


def _fewest(texts: list[str], approved: Sequence[Past]) -> list[str]:
    """Without the rules that the others make needless, the narrowest given up first."""
    needed = [each for each in approved if _allowed(_joined(texts), each)]
    for text in sorted(texts, key=len, reverse=True):
        rest = [other for other in texts if other != text]
        if all(_allowed(_joined(rest), each) for each in needed):
            texts = rest
    return sorted(texts)


def _joined(texts: Sequence[str]) -> tuple[Rule, ...]:
    from agentcli.security.policy.rules import parse_grants

    return parse_grants("; ".join(texts))


def _helps(text: str, texts: Sequence[str], refused: Past) -> bool:
    """Whether without this rule the others don't allow what was refused."""
    return not _allowed(_joined([other for other in texts if other != text]), refused)


def _allowed(rules: tuple[Rule, ...], past: Past) -> bool:
    decision = _policy(rules, past.workspace).decide(past.action, ())
    return decision.decision == "allow"


def _policy(rules: tuple[Rule, ...], workspace: Path) -> Policy:
    """Nothing but the rules: no sandbox, no rating of risk, no hard blocks."""
    from agentcli.events.base import Risk
    from agentcli.files.access_scope import AccessScope
    from agentcli.files.tracking import FileTracker
    from agentcli.security.policy.policy import Policy
    from agentcli.system.homes import user_home
    from agentcli.system.programs import person_environ

    return Policy(
        mode="ask",
        contained=False,
        scope=AccessScope(workspace, user_home(person_environ()), (workspace,)),
        rules=rules,
        effect_of=_effect,
        locate=FileTracker(workspace).locate,
        rate=lambda action: (Risk.UNKNOWN, ""),
        blocked=lambda action: "",
        confirm="never",
    )


_READING = ("read", "grep", "glob", "think", "finish", "task_tracking", "recall", "ask")


def _effect(action: Action) -> str:
    if action.kind in _READING:
        return "read"
    return "write" if action.kind in ("write", "edit") else "execute"


def _rules_of(texts: Sequence[str]) -> tuple[Rule, ...]:
    """Raises ConfigError for what is no rule, UsageError for a file that can't be read."""
    from agentcli.security.policy.rules import parse_rule

    found: list[Rule] = []
    for text in texts:
        if text.endswith(".toml") or ("(" not in text and Path(text).is_file()):
            found += _rules_in_file(Path(text))
            continue
        first, _, rest = text.partition(" ")
        if first in _ORDER and rest:
            found.append(parse_rule(rest, first, "the command line"))  # type: ignore[arg-type]
        else:
            found.append(parse_rule(text, "allow", "the command line"))
    return tuple(found)


def _rules_in_file(path: Path) -> Iterator[Rule]:
    from agentcli.errors import ConfigError, UsageError
    from agentcli.files.toml_text import load_toml
    from agentcli.security.policy.rules import parse_rule

    try:
        section = load_toml(path.read_text("utf-8")).get("security")
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    if section is None:
        raise ConfigError(
            f"{path} has no table [security]", hint='e.g. [security] allow = ["bash(make:*)"]'
        )
    for decision in ("deny", "ask", "allow"):
        texts = section.get(decision, []) if isinstance(section, dict) else []
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ConfigError(f"{path}: security.{decision} must be a list of rules")
        for text in texts:
            yield parse_rule(text, decision, str(path))


def _past_actions(against: list[str] | None) -> Iterator[Past]:
    from agentcli.errors import SessionError
    from agentcli.sessions.session import read_session

    for folder in _folders(against or ["all"]):
        try:
            record = read_session(folder)
        except SessionError as error:
            print(f"agent: {folder.name} is left out: {error.message}", file=sys.stderr)
            continue
        workspace = Path(record.state.workspace or here())
        answers = _answers(record.events)
        for event in record.events:
            if _could_change(event):
                yield Past(folder.name, workspace, event, answers.get(event.id, ""))  # type: ignore[arg-type]


def _could_change(event: Event) -> bool:
    """Whether a policy would have looked at it twice: status of jobs and faulty calls aside."""
    from agentcli.events import Action

    if not isinstance(event, Action) or not event.runnable or _effect(event) == "read":
        return False
    return not (getattr(event, "job", None) or getattr(event, "error", None))


def _answers(events: Sequence[Event]) -> dict[int, str]:
    """What a person said to each action that was asked: allow or deny."""
    from agentcli.events.observations import DecisionObservation

    return {
        event.cause: event.decision
        for event in events
        if isinstance(event, DecisionObservation) and event.by == "user" and event.cause is not None
    }


def _folders(wanted: Sequence[str]) -> Iterator[Path]:
    """Raises UsageError for what is no session."""
    from agentcli.sessions.search.finder import find, session_states

    for name in wanted:
        if name == "all":
            workspace = str(here())
            for folder, state in session_states(home()):
                if state.workspace == workspace:
                    yield folder
        elif "/" in name and (Path(name) / "events").is_dir():
            yield Path(name).absolute()
        else:
            yield find(home(), name)
