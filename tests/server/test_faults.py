"""The server's faults: every way in which an answer can go wrong."""

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
    Raw,
    Recorded,
    Redirect,
    Reply,
    StreamError,
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
from tests.server.samples import CALLS, CHAT, FULL, MESSAGES, PATHS, TAKEN, changed

api = pytest.mark.parametrize("asker", ASKERS.values(), ids=ASKERS)
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
every_path = pytest.mark.parametrize("path", PATHS)


@api
def test_http_errors_come_in_the_providers_form(asker: Asker) -> None:
    fault = HttpError(429, "rate_limit_error", "Slow down.", {"retry-after": "7"})
    with (
        ModelServer([fault]) as server,
        pytest.raises(sdk_errors("RateLimitError")) as caught,
    ):
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
def test_a_cut_stream_is_noticed(path: str) -> None:
    with (
        ModelServer([Truncated(FULL, how="cut")]) as server,
        pytest.raises(http.client.IncompleteRead),
    ):
        ask(server, path, TAKEN[path])


@every_path
def test_a_reset_stream_is_noticed(path: str) -> None:
    with (
        ModelServer([Truncated(FULL, how="reset")]) as server,
        pytest.raises(ConnectionResetError),
    ):
        ask(server, path, TAKEN[path])
    assert server.violations == []


@every_path
def test_a_plain_answer_is_cut_in_half(path: str) -> None:
    plain = changed(TAKEN[path], "stream", False)
    plain.pop("stream_options", None)
    with ModelServer([Truncated(Reply("Hello there."))]) as server:
        answer = ask(server, path, plain)
    assert answer.status == 200
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.body)


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


@api
@both_ways
def test_an_error_inside_a_stream(asker: Asker, streamed: bool) -> None:
    expected = (*sdk_errors("APIError"), RuntimeError)
    with ModelServer([StreamError(FULL)]) as server, pytest.raises(expected):
        asker(server, streamed)


@every_path
@pytest.mark.parametrize("headers", [True, False])
def test_a_hanging_answer_ends_when_it_is_let_go(path: str, headers: bool) -> None:
    event = threading.Event()
    with (
        ModelServer([Hang(event, FULL, after=2, headers=headers)]) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        asked = pool.submit(ask, server, path, TAKEN[path])
        event.set()
        with pytest.raises(http.client.HTTPException):
            asked.result()


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


def test_no_json_and_redirects() -> None:
    with ModelServer([Raw(), Redirect("http://127.0.0.1:9/elsewhere")]) as server:
        answer = ask(server, "/v1/messages", MESSAGES)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/html")
        answer = ask(server, "/v1/messages", MESSAGES)
        assert (answer.status, answer.headers["location"][:18]) == (307, "http://127.0.0.1:9")


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
