"""Show what rules would allow, ask or deny in past sessions.

The rules are applied to past commands and edits as if there were no sandbox.

Examples:
  agent policy test "bash(npm test:*)"
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from agentcli.cli.options import Json, argument
from agentcli.cli.sessions.past_actions import Against, past_actions, policy_of
from agentcli.errors import ConfigError, UsageError
from agentcli.security.policy.rule import Rule
from agentcli.security.policy.rules import check_rule, parse_rule
from agentcli.tools.registry import rule_patterns
from agentcli.ui.text import printable
from agentcli.workspace.text import load_toml

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


COMMAND = try_rules
