"""An editor works with the agent: the SDK's own client drives the real `agent acp`."""

from __future__ import annotations

import asyncio
import base64
import io
import re
import signal
import sys
import threading
from subprocess import PIPE, Popen

import pytest
from acp import RequestError, embedded_text_resource, image_block, resource_block, text_block
from acp import resource_link_block as link
from acp.schema import (
    AcceptElicitationResponse,
    AuthCapabilities,
    ClientCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    EnvVariable,
    HttpMcpServer,
    McpServerStdio,
    SseMcpServer,
)
from PIL import Image

from tests.acp.editor import Editor, editor, run
from tests.mcp.conftest import PLAIN
from tests.server import Call, HttpError, Paused, Reply

BROKEN = 'r"[a-z]+"'
FIXED = 'r"[a-z]+(?:\'[a-z]+)*"'
NETWORK = {"command": "touch fetched", "network": True, "reason": "to fetch it"}


def test_a_bug_is_fixed_in_an_editor(agent, serve, repository):
    """With a plan, permissions refused and granted, and a change as a diff; all of it is told again
    when the session is loaded."""
    plan = [{"title": "find it", "status": "in_progress"}]
    edit = {"path": "tally.py", "old_str": BROKEN, "new_str": FIXED}
    upload = {**NETWORK, "command": "touch uploaded; touch twice"}
    script = [
        Reply("", [Call("todo", {"tasks": plan})], reasoning="What fails?"),
        Reply("Let me see.", [Call("bash", {"command": "python3 -m unittest -q"})]),
        Reply("", [Call("read", {"path": "tally.py"})]),
        Reply("", [Call("edit", edit)]),
        Reply("", [Call("bash", NETWORK)]),
        Reply("", [Call("bash", upload)]),
        Reply("", [Call("bash", upload)]),
        Reply("", [Call("bash", {"command": "python3 -m unittest -q"})]),
        Reply("", [Call("finish", {"status": "success", "answer": "Mended."})]),
    ]
    agent.use(serve(script))

    def answer(call, options):
        assert [each.kind for each in options][:2] == ["allow_once", "allow_always"]
        return "reject-always" if "uploaded" in call.title else "allow-once"

    async def work() -> None:
        async with editor(agent, answer=answer) as zed:
            session = await zed.new(repository)
            assert await zed.say(session, "The test fails: mend it.") == "end_turn"
            assert zed.text(session) == "Let me see.Mended."
            assert zed.text(session, "agent_thought_chunk") == "What fails?"
            [step] = zed.of(session, "plan")[-1].entries
            assert (step.content, step.status) == ("find it", "in_progress")
            check_calls(zed, session)
            assert len(zed.asked) == 2
            asked = zed.asked[0][0]
            assert asked.title == "`touch fetched` (with network)"
            assert "to fetch it" in asked.content[1].content.text
            await zed.connection.close_session(session_id=session)
            before = zed.calls(session)
            zed.told.clear()
            await zed.connection.load_session(
                cwd=str(repository), session_id=session, mcp_servers=[]
            )
            assert zed.text(session, "user_message_chunk") == "The test fails: mend it."
            assert zed.text(session) == "Let me see.Mended."
            assert zed.calls(session) == before

    def check_calls(zed: Editor, session: str) -> None:
        test, read, change, fetch, upload, again, last = zed.calls(session).values()
        assert (test["kind"], test["status"]) == ("execute", "failed")
        assert test["title"] == "`python3 -m unittest -q`"
        assert "FAILED" in test["content"][0]["content"]["text"]
        assert (read["kind"], read["status"]) == ("read", "completed")
        path = str(repository / "tally.py")
        assert read["locations"][0]["path"] == path
        assert (change["kind"], change["status"]) == ("edit", "completed")
        [diff] = change["content"]
        assert (diff["type"], diff["path"]) == ("diff", path)
        assert BROKEN in diff["old_text"]
        assert FIXED in diff["new_text"]
        lines = (repository / "tally.py").read_text().splitlines()
        assert FIXED in lines[change["locations"][0]["line"] - 1]
        assert [each["status"] for each in (fetch, upload, again, last)] == [
            *("completed", "failed", "failed", "completed")
        ]
        assert "no, as before" in again["content"][0]["content"]["text"]

    run(work())
    assert (repository / "fetched").exists()
    assert not (repository / "uploaded").exists()


def test_a_command_is_cancelled_and_a_killed_session_goes_on(agent, serve):
    script = [
        Reply("", [Call("bash", {"command": "echo begun; sleep 60; touch after"})]),
        Reply("", [Call("bash", {"command": "echo x >> log; sleep 60"})]),
        Reply("It may have run: I look."),
    ]
    server = serve(script)
    agent.use(server)
    log = agent.workspace / "log"

    async def work() -> None:
        async with editor(agent) as zed:
            session = await zed.new(agent.workspace)
            turn = asyncio.ensure_future(zed.say(session, "go"))
            await zed.until(session, lambda told: "```\\nbegun" in str(told))
            await zed.connection.cancel(session_id=session)
            assert await turn == "cancelled"
            [call] = zed.calls(session).values()
            assert call["status"] == "failed"
            assert "interrupted by the user" in call["content"][0]["content"]["text"]
            turn = asyncio.ensure_future(zed.say(session, "again"))
            while not log.exists():
                await asyncio.sleep(0.01)
            zed.process.send_signal(signal.SIGKILL)
            with pytest.raises(ConnectionError):
                await turn
        async with editor(agent) as zed:
            [found] = (await zed.connection.list_sessions(cwd=str(agent.workspace))).sessions
            assert (found.session_id, found.title) == (session, "go")
            await zed.connection.load_session(
                cwd=str(agent.workspace), session_id=session, mcp_servers=[]
            )
            assert (
                "its effect is unknown"
                in list(zed.calls(session).values())[-1]["content"][0]["content"]["text"]
            )
            assert await zed.say(session, "go on") == "end_turn"
            assert zed.text(session).endswith("It may have run: I look.")

    run(work())
    assert log.read_text() == "x\n"
    assert not (agent.workspace / "after").exists()
    assert "Its effects are unknown" in str(server.requests[-1].body)


def test_a_turn_is_stopped_at_a_question_and_the_question_is_gone(agent, serve):
    server = serve([Reply("", [Call("bash", NETWORK)]), Reply("Not then.")])
    agent.use(server)

    async def work() -> None:
        async with editor(agent, answer=lambda call, options: None) as zed:
            session = await zed.new(agent.workspace)
            assert await zed.say(session, "fetch") == "cancelled"
            assert await zed.say(session, "leave it") == "end_turn"
            assert len(zed.asked) == 1
            [call] = zed.calls(session).values()
            assert "not started" in call["content"][0]["content"]["text"]

    run(work())
    assert "the user stopped the turn instead of answering" in str(server.requests[-1].body)
    assert not (agent.workspace / "fetched").exists()


def test_sessions_work_side_by_side_and_are_closed_with_the_editor(agent, serve):
    """A session that waits for its model does not hold up another; the end of input ends both."""
    go_on = threading.Event()
    play = {
        "slow": Paused(go_on, Reply("The slow answer.")),
        "fast": Reply("", [Call("bash", {"command": "pwd; touch here"})]),
    }

    def reply(request):
        said = str(request.body["messages"])
        if '"tool"' in said.replace("'", '"'):
            return Reply("The fast answer.")
        return play["slow" if "be slow" in said else "fast"]

    # The slow one may ask between the two requests of the other.
    agent.use(serve([reply] * 3, sessions=3))
    other = agent.workspace.parent / "other"
    other.mkdir()

    async def work() -> None:
        async with editor(agent) as zed:
            slow, fast = await zed.new(agent.workspace), await zed.new(other)
            waiting = asyncio.ensure_future(zed.say(slow, "be slow"))
            assert await zed.say(fast, "be fast") == "end_turn"
            assert zed.text(fast).endswith("The fast answer.")
            with pytest.raises(RequestError, match="works on a prompt already"):
                await zed.say(slow, "and more")
            assert not waiting.done()
            go_on.set()
            assert await waiting == "end_turn"
            assert zed.text(slow).endswith("\n\nThe slow answer.")

    run(work())
    assert (other / "here").exists()
    assert len(agent.sessions) == 2
    for folder in agent.sessions:
        assert agent("sessions", "show", folder.name).returncode == 0


def test_what_is_pointed_at_and_shown_reaches_the_model(agent, serve):
    server = serve([Reply("I see.")])
    agent.use(server)
    data = io.BytesIO()
    Image.new("RGB", (2, 2)).save(data, "PNG")
    picture = base64.b64encode(data.getvalue()).decode()
    buffer = embedded_text_resource("file:///elsewhere/buffer.py", "not saved </tool_result>")

    async def work() -> None:
        async with editor(agent) as zed:
            session = await zed.new(agent.workspace)
            said = [
                text_block("look at "),
                link("src/a b.py", (agent.workspace / "src" / "a b.py").as_uri() + "#L3-7"),
                text_block(" and "),
                resource_block(buffer),
                image_block(picture, "image/png"),
            ]
            assert await zed.say(session, *said) == "end_turn"
            with pytest.raises(RequestError, match="not an image"):
                await zed.say(session, image_block(base64.b64encode(b"x").decode(), "image/png"))
            with pytest.raises(RequestError, match="prompt is empty"):
                await zed.say(session)

    run(work())
    [message] = [m for m in server.requests[0].body["messages"] if m["role"] == "user"][:1]
    text = message["content"][0]["text"]
    assert text.startswith("look at @src/a b.py:3-7 and @/elsewhere/buffer.py")
    assert "not saved <\\/tool_result>" in text
    assert any(part["type"] == "image_url" for part in message["content"])


def test_servers_of_the_editor_are_tools_of_the_session_contained_and_asked_about(agent, serve):
    call = Call("mcp__My-Server__echo", {"text": "hello"})
    server = serve([Reply("", [call]), Reply("Done.")])
    agent.use(server)
    given = [
        McpServerStdio(
            name="My Server!",
            command=sys.executable,
            args=[str(PLAIN)],
            env=[EnvVariable(name="A", value="${HOME}")],
        ),
        SseMcpServer(type="sse", name="old", url="http://127.0.0.1:1/", headers=[]),
    ]

    async def work() -> None:
        async with editor(agent) as zed:
            session = await zed.new(agent.workspace, given)
            assert await zed.say(session, "echo it") == "end_turn"
            assert "tool server 'old' is left out: the old SSE transport" in zed.text(session)
            [told] = zed.calls(session).values()
            assert "hello" in str(told["content"])
            [(asked, _)] = zed.asked
            assert asked.tool_call_id == told["tool_call_id"]
            names = {
                each.name
                for each in zed.of(session, "available_commands_update")[-1].available_commands
            }
            assert {"compact", "undo", "init", "mcp__My-Server__greet"} <= names

    run(work())


def test_a_server_of_the_editor_is_reached_over_http(agent, serve):
    call = Call("mcp__IntelliJ-IDEA__price", {"article": "lamp", "count": 2})
    agent.use(serve([Reply("", [call]), Reply("Done.")]))

    async def work(url: str) -> None:
        idea = HttpMcpServer(type="http", name="IntelliJ IDEA", url=url, headers=[])
        async with editor(agent) as zed:
            session = await zed.new(agent.workspace, [idea])
            assert await zed.say(session, "what does it cost?") == "end_turn"
            [told] = zed.calls(session).values()
            assert (told["status"], "5.0" in str(told["content"])) == ("completed", True)

    shop = [sys.executable, str(PLAIN.with_name("sdk_server.py")), "http"]
    with Popen(shop, stdout=PIPE, text=True) as process:
        try:
            run(work(f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"))
        finally:
            process.kill()


SHOWN = {
    "/diff": "```diff\ndiff --git a/new.txt b/new.txt\n",
    "/context": "reserve for the reply",
    "/cost": "total ",
    "/rename the writer": "is now the writer",
    "/memory": "no notes on this project",
    "/agents": "explorer ",
    "/mcp": "there are no tool servers here",
}
"""What commands of an editor answer, as they do in a shell and in a conversation."""


def test_modes_models_and_commands(agent, serve, repository):
    """Plan mode changes nothing, a command takes back what was done, a model is chosen."""
    write = Call("write", {"path": "new.txt", "content": "new\n"})
    say_hello = agent.home / ".config" / "agent" / "commands" / "hello.md"
    say_hello.parent.mkdir(parents=True)
    say_hello.write_text("Say hello to $ARGUMENTS.")
    server = serve(
        [Reply("", [write]), Reply("No."), Reply("", [write]), Reply("Yes."), Reply("Hello.")]
    )
    agent.use(server)

    async def work() -> None:
        async with editor(agent, "--approval", "plan") as zed:
            made = await zed.connection.new_session(cwd=str(repository), mcp_servers=[])
            session = made.session_id
            assert made.modes.current_mode_id == "plan"
            assert [each.id for each in made.modes.available_modes] == [
                *("ask", "auto-edit", "plan", "yolo")
            ]
            assert await zed.say(session, "write it") == "end_turn"
            assert not (repository / "new.txt").exists()
            await zed.connection.set_session_mode(session_id=session, mode_id="auto-edit")
            assert await zed.say(session, "now write it") == "end_turn"
            assert (repository / "new.txt").read_text() == "new\n"
            for command, shown in SHOWN.items():
                assert await zed.say(session, command) == "end_turn"
                assert shown in zed.text(session), command
            assert await zed.say(session, "/undo") == "end_turn"
            assert not (repository / "new.txt").exists()
            way_back = re.search(r"to take that back: (/rewind \d+ files)", zed.text(session))[1]
            assert await zed.say(session, way_back) == "end_turn"
            assert (repository / "new.txt").exists()
            changed = await zed.connection.set_config_option(
                config_id="model", session_id=session, value="openai-chat/gpt-5.4-mini"
            )
            assert changed.config_options[1].current_value == "openai-chat/gpt-5.4-mini"
            with pytest.raises(RequestError, match="can't be 'mad'"):
                await zed.connection.set_session_mode(session_id=session, mode_id="mad")
            with pytest.raises(RequestError, match="can't be ' '"):
                await zed.connection.set_config_option(
                    config_id="model", session_id=session, value=" "
                )
            with pytest.raises(RequestError, match="nowhere"):
                await zed.connection.set_config_option(
                    config_id="model", session_id=session, value="nowhere/model"
                )
            assert await zed.say(session, "/hello world") == "end_turn"

    run(work())
    assert "Say hello to world." in str(server.requests[-1].body)
    assert server.requests[-1].body["model"] == "gpt-5.4-mini"


def test_what_a_child_asks_is_a_call_of_its_own(agent, serve):
    def reply(request):
        said, answered = (
            str(request.body["messages"]),
            request.body["messages"][-1]["role"] == "tool",
        )
        if "delegate it" in said:
            task = {"agent": "coder", "task": "fetch it"}
            return Reply("All done.") if answered else Reply("", [Call("delegate", task)])
        return Reply("Fetched.") if answered else Reply("", [Call("bash", NETWORK)])

    agent.use(serve([reply] * 4, sessions=3))

    async def work() -> None:
        async with editor(agent) as zed:
            session = await zed.new(agent.workspace)
            assert await zed.say(session, "delegate it") == "end_turn"
            [(asked, _)] = zed.asked
            assert "for the child coder" in str(asked.content)
            delegated, fetch = zed.calls(session).values()
            assert (delegated["status"], fetch["status"]) == ("completed", "completed")
            assert fetch["tool_call_id"] == asked.tool_call_id

    run(work())
    assert (agent.workspace / "fetched").exists()


def test_a_question_of_the_model_is_a_form_or_a_choice(agent, serve):
    ask = Call("ask", {"question": "Which?", "options": ["tabs", "blanks"]})
    agent.use(serve([Reply("", [ask]), Reply("", [ask]), Reply("", [ask]), Reply("So be it.")]))

    class WithForms(Editor):
        async def create_elicitation(self, message, mode, **meta):
            assert message == "Which?"
            return AcceptElicitationResponse(action="accept", content={"choice": "tabs"})

    forms = ClientCapabilities(
        elicitation=ElicitationCapabilities(form=ElicitationFormCapabilities())
    )

    async def work() -> None:
        async with editor(agent, capabilities=forms, kind=WithForms) as zed:
            session = await zed.new(agent.workspace)
            zed.answer = lambda call, options: options[1].option_id
            await zed.say(session, "go")
            assert "answered: tabs" in str(zed.calls(session))
            assert zed.asked == []

    run(work())


def test_a_project_is_trusted_in_the_editor(agent, serve):
    """What a folder brings along takes effect once the person has said so, from the first prompt
    on; who can't be asked is as in a run that nobody watches."""
    commands = agent.workspace / ".agent" / "commands"
    commands.mkdir(parents=True)
    (commands / "greet.md").write_text("Greet everybody.")
    server = serve([Reply("Hello."), Reply("Good day.")])
    agent.use(server)

    async def work() -> None:
        async with editor(agent, answer=lambda call, options: "trust") as zed:
            session = await zed.new(agent.workspace)
            await zed.say(session, "/greet")
            [(asked, options)] = zed.asked
            assert "greet.md" in asked.content[0].content.text
            assert [each.kind for each in options] == [
                *("allow_always", "reject_once", "reject_always")
            ]

    run(work())
    assert "Greet everybody." in str(server.requests[0].body)


def test_without_a_key_the_editor_is_told_to_set_one_up(agent):
    agent.env["AGENT_MODEL"] = "anthropic/claude-sonnet-5-5"

    has_terminal = ClientCapabilities(auth=AuthCapabilities(terminal=True))

    async def work() -> None:
        async with editor(agent, capabilities=has_terminal) as zed:
            [at_terminal, way] = zed.initialized.auth_methods
            assert at_terminal.args == ["--setup"]
            for ask in (
                zed.new(agent.workspace),
                zed.connection.authenticate(method_id=way.id),
            ):
                with pytest.raises(RequestError, match="agent setup") as failed:
                    await ask
                assert failed.value.code == -32000

    run(work())
    assert agent.sessions == []


def test_a_client_that_asks_nobody_is_one_that_says_no(agent, serve):
    """The SDK's example client refuses whatever it is asked."""
    server = serve([Reply("", [Call("bash", NETWORK)]), Reply("Then not.")])
    agent.use(server)

    class Bare(Editor):
        async def request_permission(self, *given, **named):
            raise RequestError.method_not_found("session/request_permission")

    async def work() -> None:
        async with editor(agent, kind=Bare) as zed:
            session = await zed.new(agent.workspace)
            assert await zed.say(session, "fetch") == "end_turn"

    run(work())
    assert "the editor can't ask" in str(server.requests[-1].body)


def test_a_failure_of_the_provider_is_told_and_the_session_goes_on(agent, serve):
    server = serve([HttpError(400, message="no such thing"), Reply("Now.")])
    agent.use(server)

    async def work() -> None:
        async with editor(agent) as zed:
            session = await zed.new(agent.workspace)
            with pytest.raises(RequestError, match="no such thing") as failed:
                await zed.say(session, "go")
            assert failed.value.code == -32603
            assert await zed.say(session, "again") == "end_turn"
            assert zed.text(session).endswith("\n\nNow.")

    run(work())


def test_the_end_of_the_process_is_the_end_of_its_sessions(agent, serve):
    agent.use(serve([Reply("", [Call("bash", {"command": "touch begun; sleep 100"})])]))

    async def work() -> None:
        async with editor(agent) as zed:
            session = await zed.new(agent.workspace)
            turn = asyncio.ensure_future(zed.say(session, "go"))
            while not (agent.workspace / "begun").exists():
                await asyncio.sleep(0.01)
            zed.process.send_signal(signal.SIGTERM)
            assert await turn == "cancelled"
            zed.ends_with = (143,)

    run(work())
    shown = agent("sessions", "show").stdout
    assert "told to end" in shown or "terminated" in shown, shown
