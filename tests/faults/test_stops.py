"""Asked to stop, held up, or with a clock that jumps: still one whole session."""

from __future__ import annotations

import json
import signal
from datetime import datetime, timedelta
from itertools import cycle

import pytest

from tests.faults import workload
from tests.faults.campaigns import APIS, SIGNALS, at_once, boundaries, signal_at
from tests.faults.trial import Fault, InReply, Trial

API = "chat_completions"
HOURS_6 = timedelta(hours=6).total_seconds()


def test_asked_to_stop_at_any_write_it_stops_and_can_go_on():
    writes = len(boundaries(API))
    faults = [
        Fault(kind, at) for kind, at in zip(cycle(SIGNALS), range(0, writes, 23), strict=False)
    ]
    found = at_once(lambda fault: signal_at(API, fault), faults)
    assert found.problems == []
    assert found.faults >= len(faults) // 2


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("after", [0, 3])
def test_stopped_while_the_model_answers_and_the_connection_is_lost(tmp_path, api, after):
    with Trial(tmp_path / "t", api) as trial:
        ended = trial.go(InReply(1, after, signal.SIGSTOP))
        assert ended.code == 0, ended.err
        assert ended.out.strip() == workload.DONE
        trial.finish()
        assert len(trial.server.requests) == len(workload.SHORT) + 1
    assert trial.problems == []


@pytest.mark.parametrize("shift_s", [HOURS_6, -HOURS_6], ids=["ahead", "back"])
@pytest.mark.parametrize("at", [30, 45, 70, 100])
def test_a_clock_that_jumps_stops_nothing(tmp_path, shift_s, at):
    with Trial(tmp_path / "t") as trial:
        ended = trial.go(Fault("clock", at, shift_s))
        assert ended.code == 0, ended.err
        trial.finish()
        files = sorted((trial.session / "events").iterdir())
        times = [json.loads(file.read_bytes())["timestamp"] for file in files]
    assert trial.problems == []
    assert len(trial.server.requests) == len(workload.SHORT)
    first, last = (datetime.fromisoformat(times[index]) for index in (0, -1))
    assert abs((last - first).total_seconds() - shift_s) < HOURS_6 / 2
