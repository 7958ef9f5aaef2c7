"""Suggest the fewest rules that allow what you approved before.

The rules come from past sessions, and allow nothing that you refused or that is of high risk.

Examples:
  agent policy suggest
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from agentcli.cli.options import Json
from agentcli.cli.sessions.past_actions import Against, PastAction, past_actions, policy_of
from agentcli.security.policy.policy import Policy
from agentcli.security.policy.rule import Rule
from agentcli.security.policy.rules import parse_grants, split_grants
from agentcli.ui.text import say_note


def suggest(against: Against = None, as_json: Json = False) -> None:
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


COMMAND = suggest
