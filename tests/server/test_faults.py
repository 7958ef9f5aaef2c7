"""The server's faults, beside those that `tests/llm/test_faults.py` plays to a whole run."""

from __future__ import annotations

import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.server import (
    Hang,
    HttpError,
    LengthStop,
    ModelServer,
    Paused,
    Recorded,
    Reply,
    Truncated,
)
from tests.server.clients import (
    ASKERS,
    Asker,
    ask,
    chat,
    message,
    openai_client,
    respond,
    sdk_errors,
)
from tests.server.samples import CALLS, CHAT, FULL, PATHS, TAKEN, changed
from tests.server.script import Ending

api = pytest.mark.parametrize("asker", ASKERS.values(), ids=ASKERS)
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
every_path = pytest.mark.parametrize("path", PATHS)


@api
def test_http_errors_come_in_the_providers_form(asker: Asker) -> None:
    fault = HttpError(429, "rate_limit_error", "Slow down.", {"retry-after": "7"})
    with ModelServer([fault]) as server, pytest.raises(sdk_errors("RateLimitError")) as caught:
        asker(server, True)
    error: Any = caught.value
    assert error.response.headers["retry-after"] == "7"
    assert error.response.json()["error"]["type"] == "rate_limit_error"
    assert error.request_id
    assert "Slow down." in str(error)


def test_a_code_is_told_from_a_type() -> None:
    fault = HttpError(400, "context_length_exceeded", "Too long.")
    with ModelServer([fault]) as server:
        error = ask(server, "/v1/chat/completions", CHAT).json["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", fault.kind)


@every_path
def test_a_closed_stream_looks_whole_to_http(path: str) -> None:
    short, long = Truncated(FULL), Truncated(Reply("Hi."), after=99)
    with ModelServer([short, long]) as server:
        answer = ask(server, path, TAKEN[path])
        unended = ask(server, path, TAKEN[path])
    assert answer.status == 200
    assert len(answer.events) == 3
    assert answer.headers["connection"] == "close"
    assert b"Hi." in unended.body
    for mark in (b"[DONE]", b'"stop"', b"end_turn", b"response.completed"):
        assert mark not in unended.body


@every_path
@pytest.mark.parametrize(
    ("how", "noticed"), [("cut", http.client.IncompleteRead), ("reset", ConnectionResetError)]
)
def test_a_stream_that_breaks_off_is_noticed(
    path: str, how: Ending, noticed: type[Exception]
) -> None:
    with ModelServer([Truncated(FULL, how=how)]) as server, pytest.raises(noticed):
        ask(server, path, TAKEN[path])
    assert server.violations == []


@both_ways
def test_a_stop_by_length(streamed: bool) -> None:
    with ModelServer([LengthStop(Reply("Long"))] * 3) as server:
        assert chat(server, streamed).finish == "length"
        assert respond(server, streamed).finish == "incomplete"
        assert message(server, streamed).finish == "max_tokens"


def test_a_stop_by_length_cuts_the_last_call() -> None:
    with ModelServer([LengthStop(FULL)]) as server:
        plain = changed(changed(CHAT, "stream", False), "stream_options", None)
        choice = ask(server, "/v1/chat/completions", plain).json["choices"][0]
    first, last = (c["function"]["arguments"] for c in choice["message"]["tool_calls"])
    assert json.loads(first) == CALLS[0].arguments
    assert CALLS[1].raw.startswith(last)
    assert last != CALLS[1].raw


def test_closing_the_server_lets_go_of_what_hangs() -> None:
    arrived = threading.Event()

    def hang(_: Recorded) -> Hang:
        arrived.set()
        return Hang(threading.Event())

    with ThreadPoolExecutor(1) as pool:
        with ModelServer(play=hang) as server:
            asked = pool.submit(ask, server, PATHS[0], CHAT)
            arrived.wait()
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            asked.result()


def test_a_paused_answer_goes_on() -> None:
    event = threading.Event()
    with ModelServer([Paused(event, Reply("One two three four five six seven."))]) as server:
        client = openai_client(server).chat.completions
        stream = client.create(model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
        chunks = [next(stream), next(stream), next(stream)]
        event.set()
        chunks += stream
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == "One two three four five six seven."


def test_an_exhausted_script_and_a_failing_one() -> None:
    def fail(request: Recorded) -> Reply:
        raise AssertionError(f"did not expect {request.api}")

    with ModelServer([Reply("Hi."), fail]) as server:
        statuses = [ask(server, PATHS[0], CHAT).status for _ in range(3)]
    assert statuses == [200, 500, 500]
    assert "did not expect chat_completions" in server.violations[0]
    assert server.violations[1] == "chat_completions: request 3: script exhausted"


def test_a_refused_request_uses_up_no_step() -> None:
    with ModelServer([Reply("Hi.")]) as server:
        assert ask(server, PATHS[0], {}).status == 400
        assert ask(server, PATHS[0], CHAT).status == 200
