"""Rules: test them on past sessions, or have some suggested."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any

from agentcli.cli.options import Json, argument, option
from agentcli.cli.user_paths import here, home
from agentcli.errors import ConfigError, SessionError, UsageError
from agentcli.events import Action, Event
from agentcli.events.actions import CmdRunAction, tool_name
from agentcli.events.base import Risk
from agentcli.events.observations import DecisionObservation, SessionStartedObservation
from agentcli.security.policy.policy import Policy
from agentcli.security.policy.rule import Rule
from agentcli.security.policy.rules import check_rule, parse_grants, parse_rule, split_grants
from agentcli.security.risk_rating import rate_by_rules
from agentcli.sessions.finder import find, session_states
from agentcli.sessions.session import read_session
from agentcli.system.homes import user_home
from agentcli.system.programs import user_environ
from agentcli.tools.base import Effect
from agentcli.tools.registry import TOOLS, rule_patterns
from agentcli.ui.text import printable, say_note
from agentcli.workspace.scope import AccessScope
from agentcli.workspace.text import load_toml
from agentcli.workspace.tracking import FileTracker

Against = Annotated[
    list[str] | None,
    option(
        "--against, -a SESSION",
        "Sessions: id, unique start, name, or folder; all: those of this folder.",
    ),
]


@dataclass(frozen=True)
class PastAction:
    """An action of a past session that could change something, with the user's decision. `answer`
    is allow or deny, "" if nobody was asked; `grant` is the rule that the user gave with it.
    `risk` is what the question said. `left_sandbox`: it ran outside the session's sandbox."""

    session: str
    workspace: Path
    action: Action
    answer: str
    grant: str = ""
    risk: Risk = Risk.UNKNOWN
    left_sandbox: bool = False

    @property
    def text(self) -> str:
        return str(getattr(self.action, "command", "") or self.action.message)

    @cached_property
    def is_of_high_risk(self) -> bool:
        """Whether it is of high risk, according to the question or to today's rules; such actions
        can't get a lasting rule."""
        scope = policy_of((), self.workspace).scope
        return (
            max(self.risk, rate_by_rules(self.action, scope, str(self.workspace))[0]) >= Risk.HIGH
        )


def policy_of(rules: tuple[Rule, ...], workspace: Path, *, contained: bool = False) -> Policy:
    """Return a policy of nothing but `rules`: no risk ratings, no hard blocks, and no sandbox
    unless `contained`."""
    return Policy(
        mode="ask",
        contained=contained,
        scope=AccessScope(workspace, user_home(user_environ()), (workspace,)),
        rules=rules,
        effect_of=_effect,
        locate=FileTracker(workspace).locate,
        rate=lambda action: (Risk.UNKNOWN, ""),
        blocked=lambda action: "",
        confirm="never",
    )


def _effect(action: Action) -> str:
    return _effect_of_tool(tool_name(action))


@cache
def _effect_of_tool(name: str) -> str:
    """Return the effect of a tool; for one that no longer exists, the strongest. Cached, because
    looking for a tool lists the folder of tools."""
    tool = TOOLS.all().get(name)
    return tool.effect if tool else Effect.EXECUTE


def past_actions(against: list[str] | None) -> Iterator[PastAction]:
    for folder in _folders(against or ["all"]):
        try:
            record = read_session(folder)
        except SessionError as error:
            say_note(f"{folder.name} is skipped: {error.message}")
            continue
        workspace = Path(record.state.workspace or here())
        yield from _of_session(folder.name, workspace, record.events)


def _of_session(name: str, workspace: Path, events: Sequence[Event]) -> Iterator[PastAction]:
    asked, answers = _decisions(events, "policy"), _decisions(events, "user")
    sandboxed = False
    for event in events:
        if isinstance(event, SessionStartedObservation):
            sandboxed = event.sandbox not in ("", "none")
        if not isinstance(event, Action) or not _could_change(event):
            continue
        question, answer = asked.get(event.id), answers.get(event.id)
        yield PastAction(
            session=name,
            workspace=workspace,
            action=event,
            answer=answer.decision if answer else "",
            grant=(answer.grant or "") if answer else "",
            risk=question.risk if question else Risk.UNKNOWN,
            left_sandbox=sandboxed and isinstance(event, CmdRunAction) and event.unsandboxed,
        )


def _could_change(event: Action) -> bool:
    """Return whether a policy would have examined the action: no job status, no faulty call."""
    if not event.runnable or _effect(event) == "read":
        return False
    return not (getattr(event, "job", None) or getattr(event, "error", None))


def _decisions(events: Sequence[Event], by: str) -> dict[int, DecisionObservation]:
    """Return the last decision `by` the user or the policy about each action."""
    return {
        event.cause: event
        for event in events
        if isinstance(event, DecisionObservation) and event.by == by and event.cause is not None
    }


def _folders(wanted: Sequence[str]) -> Iterator[Path]:
    """Yield the folders of the sessions. Raises UsageError for what is no session."""
    for name in wanted:
        if name == "all":
            yield from (folder for folder, _ in session_states(home(), str(here())))
        elif "/" in name and (Path(name) / "events").is_dir():
            yield Path(name).absolute()
        else:
            yield find(home(), name)


_ORDER = ("allow", "ask", "deny")


def try_rules(
    rules: Annotated[
        list[str],
        argument(
            "RULES…",
            'A TOML file with [security], or rules: "bash(git push:*)", "deny bash(rm:*)".',
        ),
    ],
    against: Against = None,
    as_json: Json = False,
) -> None:
    """Show what rules would allow, ask or deny in past sessions.

    The rules are applied to past commands and edits as if there were no sandbox.

    Examples:
      agent policy test "bash(npm test:*)"
    """
    parsed = _rules_of(rules)
    records: list[dict[str, Any]] = []
    for past in past_actions(against):
        decision = policy_of(parsed, past.workspace).decide(past.action, ())
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
    counts = Counter(record["decision"] for record in records)
    totals = {decision: counts[decision] for decision in _ORDER}
    if as_json:
        print(json.dumps({"actions": records, "counts": totals}, indent=2))
        return
    _print_rows(Counter((each["decision"], each["text"], each["rule"]) for each in records))
    print(f"{totals['allow']} allowed, {totals['ask']} asked, {totals['deny']} denied")


def _print_rows(rows: Counter[tuple[str, str, str]]) -> None:
    for decision in _ORDER:
        for (found, text, rule), count in rows.items():
            if found == decision:
                times = f"{count}x" if count > 1 else ""
                line = printable(text.replace("\n", " ⏎ "), multiline=False)
                print(f"{decision:<5} {times:>4}  {line}  [{rule}]")


def _rules_of(texts: Sequence[str]) -> tuple[Rule, ...]:
    """Parse rules and files of rules. Raises ConfigError for a wrong rule, UsageError for a file
    that can't be read."""
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
    return tuple(check_rule(rule, rule_patterns()) for rule in found)


def _rules_in_file(path: Path) -> Iterator[Rule]:
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


def suggest(against: Against = None, as_json: Json = False) -> None:
    """Suggest the fewest rules that allow what you approved before.

    The rules come from past sessions, and allow nothing that you refused or that is of high risk.

    Examples:
      agent policy suggest
    """
    past = list(past_actions(against))
    approved = [each for each in past if each.answer == "allow"]
    wanted = [each for each in approved if not each.is_of_high_risk]
    unwanted = [each for each in past if each.answer == "deny" or each.is_of_high_risk]
    chosen = _safest(list(_rules_for(wanted)), wanted, unwanted)
    covered = [each for each in wanted if _allows(_as_rules(chosen), each)]
    if as_json:
        told = {"allow": chosen, "covered": len(covered), "approved": len(approved)}
        print(json.dumps(told))
        return
    _print_suggestion(chosen, len(approved), len(covered), len(approved) - len(wanted))


def _rules_for(wanted: Sequence[PastAction]) -> Iterator[str]:
    """Yield the rules that a user gave with an approval, or would have been offered."""
    for each in wanted:
        grant = each.grant
        if not grant or not _allows(parse_grants(grant), each):
            grant = _policy((), each).grant_for(each.action)
        yield from split_grants(grant)


def _safest(
    texts: list[str], wanted: Sequence[PastAction], unwanted: Sequence[PastAction]
) -> list[str]:
    """Return the fewest of `texts` that allow as much of `wanted` as they can and nothing of
    `unwanted`. A rule that is dropped takes along those that covered nothing without it."""
    asked = [each for each in unwanted if not _allows((), each)]
    kept = [text for text in texts if not any(_allows(_as_rules([text]), no) for no in asked)]
    while guilty := [no for no in asked if _allows(_as_rules(kept), no)]:
        kept = [text for text in kept if not _helps(text, kept, guilty[0])]
    return _fewest([*dict.fromkeys(kept)], wanted)


def _print_suggestion(chosen: Sequence[str], approved: int, covered: int, risky: int) -> None:
    if not approved:
        say_note("nothing was approved in these sessions")
        return
    if chosen:
        print("[security]\nallow = [")
        for text in chosen:
            print(f"  {json.dumps(text, ensure_ascii=False)},")
        print("]")
    say_note(f"{covered} of {approved} approvals are covered")
    if risky:
        say_note(f"{risky} of high risk: no rule can cover those, they are always asked about")


def _fewest(texts: list[str], approved: Sequence[PastAction]) -> list[str]:
    """Drop the rules that the others make redundant, the narrowest first."""
    needed = [each for each in approved if _allows(_as_rules(texts), each)]
    for text in sorted(texts, key=len, reverse=True):
        rest = [other for other in texts if other != text]
        if all(_allows(_as_rules(rest), each) for each in needed):
            texts = rest
    return sorted(texts)


def _as_rules(texts: Sequence[str]) -> tuple[Rule, ...]:
    return parse_grants("; ".join(texts))


def _helps(text: str, texts: Sequence[str], refused: PastAction) -> bool:
    """Return whether dropping the rule `text` keeps the others from allowing what was refused."""
    return not _allows(_as_rules([other for other in texts if other != text]), refused)


def _allows(rules: tuple[Rule, ...], past: PastAction) -> bool:
    return _policy(rules, past).decide(past.action, ()).decision == "allow"


def _policy(rules: tuple[Rule, ...], past: PastAction) -> Policy:
    return policy_of(rules, past.workspace, contained=past.left_sandbox)


COMMAND = {
    "test": try_rules,
    "suggest": suggest,
}
