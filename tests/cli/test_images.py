"""Images on their way to the model: from the user, from tools, on every protocol."""

from __future__ import annotations

import base64
import json
import os

import pytest

from agentcli.sessions.session import read_session
from tests.conftest import MODELS
from tests.server import Call, Reply
from tests.workspace.test_images import gif, jpeg, png
from tests.workspace.test_scaling import drawn

CLAUDE = MODELS["anthropic_messages"]
LOOK = Call("read", {"path": "plot.png"})


def sent(data: bytes) -> str:
    return base64.b64encode(data).decode()


def tail(server) -> list:
    """The last messages or items of the last request, parsed."""
    body = server.requests[-1].body
    return body.get("messages") or body["input"]


@pytest.mark.parametrize("api", MODELS)
def test_what_a_tool_shows(agent, serve, api):
    (agent.workspace / "plot.png").write_bytes(png(4, 2))
    server = serve([Reply("", [LOOK, LOOK]), Reply("A plot."), Reply("Still.")])
    assert agent.use(server, MODELS[api])("run", "x").stdout == "A plot.\n"
    assert agent("resume", "--last", "and now?").stdout == "Still.\n"
    assert json.dumps(tail(server)).count(sent(png(4, 2))) == 2


def test_where_it_stands_on_each_protocol(agent, serve):
    (agent.workspace / "plot.png").write_bytes(png())
    placed = {}
    for api, model in MODELS.items():
        server = serve([Reply("", [LOOK]), Reply("Seen.")])
        agent.use(server, model)("run", "x")
        placed[api] = tail(server)[-1]
    block = placed["anthropic_messages"]["content"][0]["content"][1]
    assert block["source"] == {"type": "base64", "media_type": "image/png", "data": sent(png())}
    assert placed["chat_completions"]["role"] == "user"
    assert [part["type"] for part in placed["chat_completions"]["content"]] == ["image_url"]
    assert placed["responses"]["type"] == "function_call_output"
    assert placed["responses"]["output"][1]["type"] == "input_image"


@pytest.mark.parametrize("api", MODELS)
def test_images_of_the_user(agent, serve, api):
    (agent.workspace / "one.png").write_bytes(png(3, 3))
    (agent.workspace / "two, really a jpeg.png").write_bytes(jpeg())
    server = agent.asks(serve([Reply("Two images."), Reply("And one more.")]), MODELS[api])
    done = agent("run", "what is it?", "-i", "one.png", "--image", "two, really a jpeg.png")
    assert done.stdout == "Two images.\n", done.stderr
    (agent.workspace / "three.gif").write_bytes(gif())
    assert agent("resume", "--last", "this?", "-i", "three.gif").stdout == "And one more.\n"
    told = json.dumps(tail(server))
    places = [told.index(sent(data)) for data in (png(3, 3), jpeg(), gif())]
    assert places == sorted(places)
    assert "image/jpeg" in told


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("cut.png", png()[:-5], "cut.png is cut off: a png image without its end"),
        ("page.png", b"<html>Not found</html>", "page.png is not an image that models take"),
        ("empty.png", b"", "it is empty"),
        ("vast.jpg", jpeg(60_000, 60_000), "60000x60000 pixels"),
        ("moving.gif", gif(frames=3), "animated gif"),
        ("huge.png", png(tail=bytes(50_000_000)), "50.0 MB, more than the 50.0 MB"),
    ],
    ids=["cut off", "web page", "empty", "vast", "moving", "huge"],
)
def test_an_image_that_no_model_takes_starts_nothing(agent, serve, name, data, says):
    (agent.workspace / name).write_bytes(data)
    done = agent.use(serve())("run", "what is it?", "-i", name)
    assert done.returncode == 2
    assert says in done.stderr
    assert agent.sessions == []


def test_files_that_are_not_there_or_none_or_too_many(agent, serve):
    os.mkfifo(agent.workspace / "fifo")
    agent.use(serve())
    done = agent("run", "x", "-i", "missing.png")
    assert done.returncode == 2
    assert "missing.png can't be read: No such file" in done.stderr
    assert "fifo is not a file" in agent("run", "x", "-i", "fifo").stderr
    (agent.workspace / "big.png").write_bytes(png(tail=bytes(3_700_000)))
    done = agent("run", "x", *["-i", "big.png"] * 4)
    assert done.returncode == 2
    assert "19.7 MB as they are sent" in done.stderr


def test_an_image_comes_with_words_also_in_run_c(agent, serve):
    (agent.workspace / "one.png").write_bytes(png())
    server = serve([Reply("one"), Reply("two")])
    agent.use(server)("run", "x")
    done = agent("resume", "--last", "-i", "one.png")
    assert done.returncode == 2
    assert "the image needs a message" in done.stderr
    assert agent("run", "-c", "y", "-i", "one.png").stdout == "two\n"
    assert sent(png()).encode() in server.requests[-1].raw


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (png()[:-5], "plot.png is cut off: a png image without its end."),
        (b"<html>\n</html>\n", "this is text, not an image as its name says"),
        (b"", "[empty file]"),
        (b"BM" + bytes(60), "plot.png is binary (image/png, 62 bytes), not shown."),
    ],
    ids=["cut off", "web page", "empty", "other kind"],
)
@pytest.mark.parametrize("api", MODELS)
def test_the_model_is_told_what_is_wrong_and_the_session_goes_on(agent, serve, api, data, told):
    (agent.workspace / "plot.png").write_bytes(data)
    server = serve([Reply("", [LOOK]), Reply("I see."), Reply("Fine.")])
    assert agent.use(server, MODELS[api])("run", "x").stdout == "I see.\n"
    assert told in json.dumps(tail(server))
    assert agent("resume", "--last", "go on").stdout == "Fine.\n"


@pytest.mark.parametrize("api", MODELS)
def test_a_model_that_takes_none_is_told_that_there_is_one(agent, serve, api):
    model = MODELS[api]
    (agent.workspace / "plot.png").write_bytes(png())
    server = serve([Reply("", [LOOK]), Reply("Blind."), Reply("Seen.")], sessions=2)
    blind = ["--set", f"providers.{model.partition('/')[0]}.images=false"]
    agent.use(server, model)
    assert agent("run", "x", "-i", "plot.png", *blind).stdout == "Blind.\n"
    told = json.dumps(tail(server))
    assert sent(png()) not in told
    assert told.count("[an image here, which you can't be shown]") == 2
    assert agent("resume", "--last", "now?").stdout == "Seen.\n"
    assert json.dumps(tail(server)).count(sent(png())) == 2


@pytest.mark.parametrize(
    ("api", "told"),
    [
        ("chat_completions", "shown scaled down to 2000x1125; multiply coordinates by 1.92 to"),
        ("anthropic_messages", "shown scaled down to 1430x804; multiply coordinates by 2.685 (x)"),
    ],
)
def test_a_large_screenshot_is_made_as_large_as_its_model_sees_it(agent, serve, api, told):
    (agent.workspace / "plot.png").write_bytes(drawn(3840, 2160))
    (agent.workspace / "large.png").write_bytes(png(2_400, 2, tail=bytes(11_000_000)))
    look = [LOOK, Call("read", {"path": "large.png"})]
    server = serve([Reply("", look), Reply("A screen.")])
    done = agent.use(server, MODELS[api])("run", "which button?", "-i", "plot.png")
    assert done.stdout == "A screen.\n", done.stderr
    sent_first, sent_last = server.requests[0].body, server.requests[-1].body
    assert f"[the image: 3840x2160 pixels, {told}" in json.dumps(sent_first["messages"])
    assert json.dumps(sent_last["messages"]).count(f"3840x2160 pixels, {told}") == 2
    assert "2400x2 pixels, shown scaled down" in json.dumps(sent_last["messages"])
    assert len(server.requests[-1].raw) < 2_000_000


def test_the_log_keeps_the_image_once(agent, serve):
    (agent.workspace / "one.png").write_bytes(png())
    agent.use(serve([Reply("one")]))("run", "x", "-i", "one.png")
    holding = [e for e in read_session(agent.sessions[0]).events if getattr(e, "image_urls", ())]
    assert [event.image_urls for event in holding] == [(f"data:image/png;base64,{sent(png())}",)]
