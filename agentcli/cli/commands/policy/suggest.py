"""The fewest safe rules for what you approved in past sessions, and nothing you refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from agentcli.cli.past_actions import Against, Past, past_actions, policy_of
from agentcli.cli.session_common import Json
from agentcli.security.policy.rule import Rule
from agentcli.security.policy.rules import parse_grants, split_grants


def suggest(against: Against = None, as_json: Json = False) -> None:
    past = list(past_actions(against))
    approved = [each for each in past if each.answer == "allow"]
    refused = [each for each in past if each.answer == "deny"]
    wanted: dict[str, None] = {}
    for each in approved:
        for text in split_grants(policy_of((), each.workspace).grant_for(each.action)):
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
    return parse_grants("; ".join(texts))


def _helps(text: str, texts: Sequence[str], refused: Past) -> bool:
    """Whether without this rule the others don't allow what was refused."""
    return not _allowed(_joined([other for other in texts if other != text]), refused)


def _allowed(rules: tuple[Rule, ...], past: Past) -> bool:
    decision = policy_of(rules, past.workspace).decide(past.action, ())
    return decision.decision == "allow"


COMMAND = suggest
