"""Early masking of recorded sessions: what is sent, and when it has paid."""

from __future__ import annotations

import json

import pytest

from benchmarks.condensing.early import chained, recorded, report, requests, steps_to_pay
from benchmarks.condensing.prices import CACHES, Model

FAT = "".join(f"a line of a long result, number {n}\n" for n in range(400))
MODEL = Model("a/b", 1.0, 0.1, 1.25, 5.0, CACHES["anthropic"])


def call(number, **arguments):
    function = {"name": "bash", "arguments": json.dumps(arguments)}
    return {"role": "assistant", "tool_calls": [{"id": f"c{number}", "function": function}]}


def result(number, content):
    return {"role": "tool", "tool_call_id": f"c{number}", "content": content}


@pytest.fixture
def folder(tmp_path):
    """One session of five requests; the last reply but one quotes a long result of the first."""
    said = [
        [{"role": "system", "content": "You help."}, {"role": "user", "content": "Fix it."}],
        [call(1, command="cat x"), result(1, FAT)],
        [call(2, command="ls"), result(2, "x")],
        [call(3, old="a line of a long result, number 7", new="b"), result(3, "ok")],
        [call(4, command="make"), result(4, "ok")],
    ]
    place = tmp_path / "run" / "desk"
    place.mkdir(parents=True)
    for number in range(1, len(said) + 1):
        messages = [message for part in said[:number] for message in part]
        body = {"tools": [{"name": "bash"}], "messages": messages}
        (place / f"{number:04}.request.json").write_text(json.dumps({"body": body}))
    return tmp_path


def test_masking_breaks_the_prefix_once_and_makes_what_follows_shorter(folder):
    (session,) = recorded(folder)
    plain = list(requests(session, 1_000, 0, recalls=False))
    masked = list(requests(session, 1_000, 1, recalls=False))
    assert [sent.prompt for sent in plain[:2]] == [sent.prompt for sent in masked[:2]]
    assert masked[2].shared < plain[0].prompt + 100 < plain[2].shared
    assert all(m.prompt < p.prompt / 2 for m, p in zip(masked[2:], plain[2:], strict=True))
    assert [sent.shared for sent in masked[3:]] == [sent.prompt for sent in masked[2:-1]]


def test_what_is_quoted_later_is_recalled(folder):
    (session,) = recorded(folder)
    sent = list(requests(session, 1_000, 1, recalls=True))
    assert len(sent) == 6
    assert sent[3].prompt > 2 * sent[2].prompt
    late = list(requests(session, 1_000, 3, recalls=True))
    assert len(late) == 5, "it was still in sight when it was quoted"


def test_more_behind_a_result_takes_longer_to_pay():
    few, many = (steps_to_pay(MODEL, 3_000, after) for after in (500, 5_000))
    assert few == pytest.approx(1.94, abs=0.01)
    assert many == pytest.approx(10 * few)


def test_sessions_in_a_row_are_one(folder):
    (session,) = recorded(folder)
    assert len(chained([session, session]).turns) == 10
    assert sum(line.startswith("| anthropic/") for line in report(folder)) == 5
