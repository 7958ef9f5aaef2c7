"""The model server, asked by the providers' own clients and by hand."""

from __future__ import annotations

import copy
import http.client
import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.server import (
    Call,
    ModelServer,
    Reply,
    Usage,
    anthropic_messages,
    chat_completions,
    responses,
)
from tests.server.clients import (
    ASKERS,
    HEADERS,
    THOUGHT,
    Asker,
    anthropic_client,
    ask,
    openai_client,
    sdk_errors,
)
from tests.server.samples import (
    CALLS,
    CHAT,
    FULL,
    MESSAGES,
    PATHS,
    RESPONSES,
    TAKEN,
    Malformed,
    changed,
    malformed,
    oddities,
)

ROOT = Path(__file__).parents[2]
api = pytest.mark.parametrize("asker", ASKERS.values(), ids=ASKERS)
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
every_path = pytest.mark.parametrize("path", PATHS)


class TestAnswers:
    @api
    @both_ways
    def test_text_calls_and_reasoning_reach_the_client(self, asker: Asker, streamed: bool) -> None:
        with ModelServer([FULL]) as server:
            said = asker(server, streamed)
        assert said.text == FULL.text
        assert said.calls == [(call.name, call.arguments) for call in CALLS]
        assert said.reasoning == FULL.reasoning
        assert said.finish in ("tool_calls", "completed", "tool_use")
        assert server.violations == []

    @api
    @both_ways
    def test_text_alone_ends_the_turn(self, asker: Asker, streamed: bool) -> None:
        with ModelServer([Reply("Done.")]) as server:
            said = asker(server, streamed)
        assert said[:3] == ("Done.", [], "")
        assert said.finish in ("stop", "completed", "end_turn")

    def test_chat_stream_has_the_real_shape(self) -> None:
        with ModelServer([FULL]) as server:
            events = ask(server, "/v1/chat/completions", CHAT).events
        assert events[0]["choices"][0]["delta"]["role"] == "assistant"
        assert sum("content" in e["choices"][0]["delta"] for e in events[1:-3]) > 1
        pieces = [c for e in events[:-2] for c in e["choices"][0]["delta"].get("tool_calls", [])]
        heads = [piece for piece in pieces if "id" in piece]
        assert [(head["index"], head["function"]["arguments"]) for head in heads] == [
            (0, ""),
            (1, ""),
        ]
        assert len(pieces) > len(heads) + 2
        assert events[-3]["choices"][0]["finish_reason"] == "tool_calls"
        assert events[-2]["choices"] == []
        assert events[-2]["usage"]["total_tokens"] > 0
        assert events[-1] == "[DONE]"

    def test_chat_stream_has_no_usage_unless_asked(self) -> None:
        with ModelServer([Reply("Hi.")]) as server:
            events = ask(
                server, "/v1/chat/completions", changed(CHAT, "stream_options", None)
            ).events
        assert all("usage" not in event for event in events[:-1])

    def test_responses_stream_has_the_real_shape(self) -> None:
        with ModelServer([FULL]) as server:
            events = ask(server, "/v1/responses", RESPONSES).events
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        kinds = [event["type"].removeprefix("response.") for event in events]
        assert kinds[:3] == ["created", "in_progress", "output_item.added"]
        assert kinds[-1] == "completed"
        assert kinds.count("output_item.done") == kinds.count("output_item.added") == 4
        assert kinds.count("output_text.delta") > 1
        assert kinds.count("function_call_arguments.done") == 2
        assert kinds.count("reasoning_summary_text.done") == 1
        done = [event["item"] for event in events if event["type"].endswith("item.done")]
        assert done == events[-1]["response"]["output"]

    def test_messages_stream_has_the_real_shape(self) -> None:
        with ModelServer([FULL]) as server:
            events = ask(server, "/v1/messages", MESSAGES).events
        kinds = [event["type"] for event in events]
        assert kinds[:3] == ["message_start", "content_block_start", "ping"]
        assert kinds[-2:] == ["message_delta", "message_stop"]
        assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 4
        deltas = [e["delta"]["type"] for e in events if e["type"] == "content_block_delta"]
        assert [kind for n, kind in enumerate(deltas) if kind not in deltas[:n]] == [
            "thinking_delta",
            "signature_delta",
            "text_delta",
            "input_json_delta",
        ]

    def test_reasoning_is_given_as_the_request_wants_it(self) -> None:
        with ModelServer([FULL, FULL, FULL]) as server:
            bare = {"model": "m", "input": "hi"}
            item = ask(server, "/v1/responses", bare).json["output"][0]
            assert (item["type"], item["summary"]) == ("reasoning", [])
            assert "encrypted_content" not in item
            off = changed(changed(MESSAGES, "thinking", {"type": "disabled"}), "stream", False)
            kinds = [block["type"] for block in ask(server, "/v1/messages", off).json["content"]]
            assert "thinking" not in kinds
            on = changed(changed(MESSAGES, "thinking.display", "omitted"), "stream", False)
            block = ask(server, "/v1/messages", on).json["content"][0]
            assert (block["type"], block["thinking"]) == ("thinking", "")

    @pytest.mark.parametrize("raw", ['{"command": "ls', "[]", ""])
    def test_arguments_given_as_text_are_sent_as_they_are(self, raw: str) -> None:
        with ModelServer([Reply(calls=[Call("bash", raw, id="toolu_x")])] * 3) as server:
            events = ask(server, "/v1/messages", MESSAGES).events
            pieces = [e["delta"].get("partial_json", "") for e in events if "delta" in e]
            assert "".join(pieces) == raw
            plain = changed(changed(CHAT, "stream", False), "stream_options", None)
            call = ask(server, "/chat/completions", plain).json["choices"][0]["message"]
            assert call["tool_calls"][0]["function"]["arguments"] == raw
            assert call["tool_calls"][0]["id"] == "toolu_x"

    def test_one_connection_serves_many_requests(self) -> None:
        with ModelServer([Reply("Hi.")], loop=True) as server:
            connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
            for path, body in [*TAKEN.items()] * 2:
                connection.request("POST", path, json.dumps(body), HEADERS)
                answer = connection.getresponse()
                assert answer.status == 200
                assert answer.read()
            connection.close()
        assert server.violations == []


class TestConversations:
    """Whatever the server says can be sent back to it."""

    def test_chat(self) -> None:
        reply = Reply("Let me look.", calls=CALLS)
        with ModelServer([reply, reply, Reply("Done.")]) as server:
            messages: list[Any] = [{"role": "user", "content": "hi"}]
            for _ in range(3):
                client = openai_client(server).chat.completions
                answer: Any = client.create(model="m", messages=messages).choices[0].message
                messages.append({"role": "assistant", "content": answer.content})
                if answer.tool_calls:
                    messages[-1]["tool_calls"] = [call.model_dump() for call in answer.tool_calls]
                for call in answer.tool_calls or []:
                    result = {"role": "tool", "tool_call_id": call.id, "content": "x" * 400}
                    messages.append(result)
        assert server.violations == server.prefix_breaks() == []

    def test_responses(self) -> None:
        with ModelServer([FULL, FULL, Reply("Done.", reasoning="All clear.")]) as server:
            items: list[Any] = [{"role": "user", "content": "hi"}]
            cached = []
            for _ in range(3):
                client = openai_client(server).responses
                answer: Any = client.create(model="m", input=items, store=False, **THOUGHT)
                cached.append(answer.usage.input_tokens_details.cached_tokens)
                items += answer.output
                for item in answer.output:
                    if item.type == "function_call":
                        result = {"call_id": item.call_id, "output": "x" * 400}
                        items.append({"type": "function_call_output", **result})
            items.append({"role": "user", "content": "thanks"})
            ask(server, "/v1/responses", server.requests[-1].body)
        assert server.prefix_breaks() == []
        assert server.violations == ["responses: request 4: script exhausted"]
        assert cached[0] < cached[1] < cached[2]

    def test_messages(self) -> None:
        mark = {"cache_control": {"type": "ephemeral"}}
        with ModelServer([FULL, FULL, Reply("Done.")]) as server:
            turns: list[Any] = [
                {"role": "user", "content": [{"type": "text", "text": "hi" * 400} | mark]}
            ]
            counts = []
            for _ in range(3):
                client = anthropic_client(server).messages
                thinking: Any = {"type": "enabled", "budget_tokens": 1024}
                answer = client.create(
                    model="m", max_tokens=2000, messages=turns, thinking=thinking
                )
                counts.append(answer.usage)
                turns[-1]["content"][-1].pop("cache_control")
                turns.append({"role": "assistant", "content": answer.content})
                uses = [block for block in answer.content if block.type == "tool_use"]
                results: list[Any] = [
                    {"type": "tool_result", "tool_use_id": use.id, "content": "x" * 400}
                    for use in uses
                ]
                results.append({"type": "text", "text": "Go on."})
                results[-1] |= mark
                turns.append({"role": "user", "content": results})
        assert server.violations == server.prefix_breaks() == []
        reads = [count.cache_read_input_tokens or 0 for count in counts]
        assert 0 == reads[0] < reads[1] < reads[2]
        assert all(count.cache_creation_input_tokens for count in counts)

    def test_reasoning_content_comes_back_only_where_it_is_taken(self) -> None:
        body = changed(CHAT, "messages.2.reasoning_content", "Hm.")
        with ModelServer([Reply("Hi.")], provider="vllm") as server:
            assert ask(server, "/v1/chat/completions", body).status == 200
        assert server.requests[0].body == body


class TestRefusals:
    @pytest.mark.parametrize("sample", list(malformed()), ids=lambda sample: sample.name)
    def test_malformed_requests(self, sample: Malformed) -> None:
        with ModelServer([Reply("Hi.")]) as server:
            answer = ask(server, sample.path, sample.body)
        assert answer.status == 400
        error = answer.json["error"]
        assert error["type"] == "invalid_request_error"
        assert error["message"] in server.violations[0]
        assert any(sample.says in violation for violation in server.violations)
        assert [request.refused for request in server.requests] == [True]

    @pytest.mark.parametrize("api", [chat_completions, responses, anthropic_messages])
    def test_no_oddity_anywhere_upsets_the_judge(self, api: Any) -> None:
        """Any value in any place is either refused or can be answered."""
        version = {"anthropic-version": "2023-06-01"}
        usage = Usage(input=1, output=1)
        for body in oddities(TAKEN["/v1" + api.PATH]):
            if not api.validate(body, version):
                api.parts(body)
                api.render(FULL, body, usage)

    @every_path
    def test_the_unchanged_samples_are_taken(self, path: str) -> None:
        with ModelServer([Reply("Hi."), Reply("Hi.")]) as server:
            assert ask(server, path, TAKEN[path]).status == 200
            assert ask(server, path.removeprefix("/v1"), TAKEN[path]).status == 200
        assert server.violations == []

    @every_path
    @pytest.mark.parametrize(
        ("sent", "content_type"),
        [
            (b'{"model": "\xff"}', "application/json"),
            (b'{"model": "\xed\xa0\x80"}', "application/json"),
            (rb'{"model": "\ud800"}', "application/json"),
            (rb'{"model": "a\u0000"}', "application/json"),
            (b'{"model": NaN}', "application/json"),
            (b'{"model": "m"', "application/json"),
            (b'["m"]', "application/json"),
            (b"[" * 100_000, "application/json"),
            (b'{"model": "m"}', "text/plain"),
        ],
    )
    def test_bodies_that_are_no_json_object(
        self, path: str, sent: bytes, content_type: str
    ) -> None:
        with ModelServer([Reply("Hi.")]) as server:
            assert ask(server, path, sent, content_type=content_type).status == 400
        assert "body" in server.violations[0] or "content type" in server.violations[0]

    @every_path
    def test_odd_characters_are_no_fault(self, path: str) -> None:
        text = "😀 é \\u0000 \\ud800 \x7f"
        place = "instructions" if "responses" in path else "system.0.text"
        place = "messages.0.content" if "chat" in path else place
        for ascii_only in (True, False):
            with ModelServer([Reply("Hi.")]) as server:
                body = json.dumps(changed(TAKEN[path], place, text), ensure_ascii=ascii_only)
                assert ask(server, path, body.encode()).status == 200

    def test_more_than_four_cache_marks(self) -> None:
        mark = {"cache_control": {"type": "ephemeral"}}
        body = copy.deepcopy(MESSAGES)
        body["messages"][0]["content"][0] |= mark
        body["messages"][2]["content"][1]["content"][0] |= mark
        with ModelServer([Reply("Hi.")]) as server:
            assert ask(server, "/v1/messages", body).status == 200
            body["tools"][0] |= mark
            assert ask(server, "/v1/messages", body).status == 400
        assert "maximum of 4 blocks" in server.violations[0]

    def test_messages_need_a_version(self) -> None:
        with ModelServer([Reply("Hi.")]) as server:
            assert ask(server, "/v1/messages", MESSAGES, anthropic_version="").status == 400
        assert "anthropic-version" in server.violations[0]

    @api
    def test_a_wrong_key(self, asker: Asker) -> None:
        with (
            ModelServer([Reply("Hi.")], keys={"other"}) as server,
            pytest.raises(sdk_errors("AuthenticationError")),
        ):
            asker(server, True)
        assert server.violations == []
        assert server.requests[0].refused

    @every_path
    def test_keys(self, path: str) -> None:
        with ModelServer([Reply("Hi.")] * 2) as server:
            assert ask(server, path, TAKEN[path], authorization="Bearer ").status == 401
            status = ask(server, path, TAKEN[path], authorization="", x_api_key="k").status
            assert status == (200 if "messages" in path else 401)
        with ModelServer([Reply("Hi.")], keys=()) as server:
            assert ask(server, path, TAKEN[path], authorization="").status == 200

    @api
    def test_an_unknown_model(self, asker: Asker) -> None:
        with (
            ModelServer([Reply("Hi.")], models=["n"]) as server,
            pytest.raises(sdk_errors("NotFoundError"), match="m"),
        ):
            asker(server, True)
        assert server.violations == []

    def test_models_are_listed_in_both_forms(self) -> None:
        with ModelServer(models=["a", "b"]) as server:
            assert [model.id for model in openai_client(server).models.list()] == ["a", "b"]
            assert [model.id for model in anthropic_client(server).models.list()] == ["a", "b"]
            assert openai_client(server).models.retrieve("b").object == "model"
            with pytest.raises(sdk_errors("NotFoundError")):
                anthropic_client(server).models.retrieve("c")

    def test_unknown_paths(self) -> None:
        with ModelServer([Reply("Hi.")]) as server:
            assert ask(server, "/v1/v1/messages", MESSAGES).json["type"] == "error"
            assert ask(server, "/v1/messages", b"").status == 404

    def test_without_strictness_nothing_is_judged(self) -> None:
        with ModelServer([Reply("Hi.")] * 3, strict=False, record=False) as server:
            for path in PATHS:
                assert ask(server, path, TAKEN[path] | {"surprise": 1}).status == 200
        assert server.violations == []
        assert server.requests == []


class TestRecords:
    def test_requests_are_kept_as_they_came(self) -> None:
        with ModelServer(play=lambda request: Reply(request.body["model"])) as server:
            ask(server, "/v1/responses?x=1", RESPONSES)
        (request,) = server.requests
        assert (request.api, request.path) == ("responses", "/v1/responses?x=1")
        assert request.headers["authorization"] == "Bearer k"
        assert json.loads(request.raw) == request.body == RESPONSES

    def test_parallel_requests_are_all_kept(self) -> None:
        with ModelServer([Reply("Hi.")], loop=True) as server, ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda n: ask(server, PATHS[n % 3], TAKEN[PATHS[n % 3]]), range(48))
            assert {answer.status for answer in answers} == {200}
        assert len(server.requests) == 48

    def test_usage_can_be_given(self) -> None:
        usage = Usage(input=1000, output=50, cached=600, written=300, reasoning=20)
        with ModelServer([Reply("Hi.", usage=usage)] * 2) as server:
            final = ask(server, "/v1/responses", RESPONSES).events[-1]["response"]["usage"]
            assert final["input_tokens_details"]["cached_tokens"] == 600
            assert final["output_tokens_details"]["reasoning_tokens"] == 20
            start = ask(server, "/v1/messages", MESSAGES).events[0]["message"]["usage"]
        assert (start["input_tokens"], start["cache_creation_input_tokens"]) == (100, 300)

    @pytest.mark.parametrize(
        ("path", "place", "value", "named"),
        [
            (PATHS[0], "messages.0.content", "Be long.", "messages[0].content[0]"),
            (PATHS[0], "tools.0.function.description", "Walks.", "tools[0]"),
            (PATHS[0], "messages.2.tool_calls.1.function.arguments", "{}", "messages[2]"),
            (PATHS[1], "instructions", "Be long.", "instructions"),
            (PATHS[1], "input.3.output", "no", "input[3]"),
            (PATHS[1], "input.5", {"role": "developer", "content": "Go on."}, "input[5]"),
            (PATHS[2], "system.0.text", "Be long.", "system.0"),
            (PATHS[2], "messages.2.content.0.content", "no", "messages.2.content.0"),
            (PATHS[2], "messages.0.content.0.text", "See.", "messages.0.content.0"),
        ],
    )
    def test_a_changed_prefix_is_named(
        self, path: str, place: str, value: object, named: str
    ) -> None:
        with ModelServer([Reply("Hi.")], loop=True) as server:
            for body in (TAKEN[path], TAKEN[path], changed(TAKEN[path], place, value)):
                assert ask(server, path, body).status == 200
        (only,) = server.prefix_breaks()
        assert f"request 3 does not begin with request 2: {named} = " in only
        assert server.prefix_breaks(lambda request: request.body == TAKEN[path]) == []

    @pytest.mark.parametrize(
        ("path", "place", "value"),
        [
            (PATHS[0], "messages.1.content.+", {"type": "text", "text": "And?"}),
            (PATHS[1], "input.0.content.+", {"type": "input_text", "text": "And?"}),
            (PATHS[2], "messages.2.content.+", {"type": "text", "text": "And?"}),
        ],
    )
    def test_the_last_message_may_grow_and_marks_may_move(
        self, path: str, place: str, value: object
    ) -> None:
        first = copy.deepcopy(TAKEN[path])
        if "messages" not in path:
            kept = first.get("messages") or first["input"]
            del kept[int(place.split(".")[1]) + 1 :]
        second = changed(first, place, value)
        if "messages" in path:
            del second["messages"][2]["content"][2]["cache_control"]
        with ModelServer([Reply("Hi.")], loop=True) as server:
            for body in (first, second):
                assert ask(server, path, body).status == 200
        assert server.prefix_breaks() == []


def test_as_its_own_process(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    call = {"name": "bash", "arguments": {"command": "ls"}}
    script.write_text(json.dumps([{"calls": [call]}, {"text": "Done.", "finish": "stop"}]))
    port_file = tmp_path / "url"
    command = [sys.executable, "-m", "tests.server", "--script", str(script), "--loop"]
    with subprocess.Popen(
        [*command, "--port-file", str(port_file)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert port_file.read_text() == url
        import openai

        client = openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)
        texts = [client.responses.create(model="m", input="hi").output_text for _ in range(4)]
        process.send_signal(signal.SIGTERM)
    assert texts == ["", "Done.", "", "Done."]
    assert process.returncode == 0
