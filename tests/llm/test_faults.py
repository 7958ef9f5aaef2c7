"""Whatever a server does wrong, a run ends with the work done or with a clear error."""

from __future__ import annotations

import pytest

from tests.llm.faults import CASES, play, staged

pytestmark = pytest.mark.usefixtures("nothing_but_the_model")


@pytest.mark.cases(len(CASES) // 40)
@pytest.mark.parametrize(("name", "provider", "streamed"), CASES.values(), ids=CASES)
def test_a_fault_ends_in_the_work_done_or_in_a_clear_error(name, provider, streamed, tmp_path):
    with staged(name, provider, streamed) as stage:
        outcome, session = play(stage, tmp_path)
        stage.check(outcome, tmp_path / "work", session)
