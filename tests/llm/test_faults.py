"""Whatever a server does wrong, a run ends with the work done or with a clear error."""

from __future__ import annotations

import pytest

from agentcli.llm.provider import built_in
from tests.llm.faults import CASES, PLAYED, play, staged
from tests.server.plan import PLAN

pytestmark = pytest.mark.usefixtures("nothing_but_the_model")


@pytest.mark.cases(len(CASES) // 40)
@pytest.mark.parametrize(("name", "provider", "streamed"), CASES.values(), ids=CASES)
def test_a_fault_ends_in_the_work_done_or_in_a_clear_error(name, provider, streamed, tmp_path):
    with staged(name, provider, streamed) as stage:
        outcome, session = play(stage, tmp_path)
        stage.check(outcome, tmp_path / "work", session)


ON_EACH = ("reasoning before a call", "429, once", "401", "cut after 4 events, once")
"""Faults of every kind of outcome; the campaign plays them all."""
_CASES = [
    (provider, name)
    for provider in PLAYED
    for name in ON_EACH
    if built_in(provider).protocol in PLAN[name].apis
]


@pytest.mark.parametrize(("provider", "name"), _CASES)
def test_a_provider_is_used_by_its_rules_whatever_happens(provider, name, tmp_path):
    with staged(name, provider, streamed=True) as stage:
        outcome, session = play(stage, tmp_path)
        stage.check(outcome, tmp_path / "work", session)
