"""Programs drive the agent, as docs/python.md says."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import agentcli
from tests.conftest import LIMIT_S, Agent
from tests.server import Call, ModelServer, Reply

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/python.md").read_text(), re.M | re.S)


def started(agent: Agent, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=agent.workspace,
        env=agent.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(agent: Agent, program: str) -> str:
    """Run a program and return its output; it must succeed and write nothing to stderr."""
    with started(agent, program) as process:
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, err) == (0, ""), err
    return out


def said(server: ModelServer) -> list[str]:
    """Return all messages of the last request as text."""
    messages = server.requests[-1].body["messages"]
    return [str(message.get("content")) for message in messages]


def test_to_import_it_loads_nothing(agent):
    out = run(agent, "import agentcli, sys; print(*(m for m in sys.modules if '.' not in m))")
    loaded = set(out.split())
    assert not loaded & {"pydantic", "rich", "typer", "openai", "anthropic", "logging", "jinja2"}


def test_what_it_offers_is_there():
    for name in agentcli.__all__:
        assert getattr(agentcli, name) is not None
    stub = (ROOT / "agentcli/__init__.pyi").read_text()
    assert re.findall(r'^    "(\w+)",$', stub, re.M) == sorted(agentcli.__all__)
    with pytest.raises(AttributeError):
        _ = agentcli.nothing


@pytest.mark.campaign
@pytest.mark.cases(len(EXAMPLES))
@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_of_the_docs(agent, repository, example):
    with ModelServer([Reply("Done.")], loop=True, strict=False) as server:
        run(agent.use(server), example)


def test_functions_are_tools_and_the_policy_judges_them(agent, serve):
    calls = [Call("stock", {"part": "nut"}), Call("order", {"part": "nut"})]
    server = serve([Reply("", calls), Reply("", [Call("order", {"part": "bolt"})]), Reply("Done.")])
    out = run(
        agent.use(server),
        '''
        from typing import Annotated
        import agentcli

        @agentcli.tool("read")
        def stock(part: Annotated[str, "in the singular"], tags: list[str] | None = None) -> dict:
            """How many of a part are left."""
            return {part: 40, "tags": tags}

        def order(part: str, amount: int = 10) -> str:
            """Order more of a part."""
            print("ordered", amount, part)
            return "ordered"

        def approve(action, reason):
            print(reason)
            return True if "nut" in action.message else "no more bolts"

        result = agentcli.run("Order what is short.", tools=[stock, order], approve=approve)
        print(result.answer, result.exit_code)
        ''',
    )
    reason = "no sandbox contains what order does"
    assert out.splitlines() == [reason, "ordered 10 nut", reason, "Done. 0"]
    told = {tool["function"]["name"]: tool["function"] for tool in server.requests[0].body["tools"]}
    assert told["stock"]["description"] == "How many of a part are left."
    assert told["stock"]["parameters"] == {
        "type": "object",
        "properties": {
            "part": {"type": "string", "description": "in the singular"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["part"],
    }
    messages = "\n".join(said(server))
    assert '{"nut": 40, "tags": null}' in messages
    assert "They said: no more bolts" in messages


def test_a_function_answers_instead_of_a_person(agent, serve):
    server = serve([Reply("Tabs or spaces?"), Reply("Tabs it is."), Reply("Anything else?")])
    out = run(
        agent.use(server),
        """
        import agentcli
        from agentcli.events import Source
        from agentcli.events.actions import MessageAction

        answers = iter(["Tabs.", None])

        def respond(said):
            print("asked:", said)
            return next(answers)

        with agentcli.Session.open(
            fake_user_response_fn=respond,
            instructions="Answer in one sentence.",
            initial_events=[
                MessageAction(content="We speak about the parser.", source=Source.USER),
                MessageAction(content="Understood.", source=Source.AGENT),
            ],
        ) as session:
            print(session.send("Format it.").ending.agent_state)
        result = agentcli.run("Go on.", session_id=session.id, exit_on_message=True,
                              fake_user_response_fn=respond)
        print(result.ending.agent_state, result.session_id == session.id)
        """,
    )
    assert out.splitlines() == [
        "asked: Tabs or spaces?",
        "asked: Tabs it is.",
        "awaiting_user_input",
        "awaiting_user_input True",
    ]
    first = server.requests[0].body["messages"]
    assert first[0]["content"].endswith("\n\nAnswer in one sentence.")
    assert "We speak about the parser." in str(first[1])
    assert first[2] == {"role": "assistant", "content": "Understood."}


def test_leaving_a_stream_interrupts_and_the_session_goes_on_in_another_thread(agent, serve):
    sleep = Call("bash", {"command": "sleep 600"})
    server = serve([Reply("", [sleep]), Reply("", [sleep]), Reply("Rested.")])
    out = run(
        agent.use(server),
        """
        import signal
        from concurrent.futures import ThreadPoolExecutor
        import agentcli
        from agentcli.events.actions import CmdRunAction

        with agentcli.Session.open() as session:
            for told in session.stream("Sleep."):
                if isinstance(told, CmdRunAction):
                    break
            print(session.result.ending.agent_state, session.result.ending.reason)

        with agentcli.Session.open(session_id=session.id) as session:
            left_open = session.stream("Sleep again.")
            while not isinstance(next(left_open), CmdRunAction):
                pass
        print(session.result.ending.agent_state, session.result.ending.reason)

        def go_on():
            with agentcli.Session.open(session_id=session.id) as again:
                return again.go_on().answer

        with ThreadPoolExecutor(1) as pool:
            print(pool.submit(go_on).result())
        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        """,
    )
    assert out.splitlines() == [*["paused interrupted"] * 2, "Rested.", "True"]


def test_ctrl_c_is_raised_when_the_turn_is_accounted_for(agent, serve):
    server = serve(
        [Reply("", [Call("bash", {"command": "echo here; sleep 600"})]), Reply("Rested.")]
    )
    program = """
        import agentcli
        from agentcli.events.progress import ToolOutput

        def on_event(told):
            if isinstance(told, ToolOutput):
                print("sleeps", flush=True)

        with agentcli.Session.open(on_event=on_event) as session:
            try:
                session.send("Sleep.")
            except KeyboardInterrupt:
                print(session.state.agent_state)
            print(session.go_on().answer)
    """
    with started(agent.use(server), program) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sleeps\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT_S)
    assert (out.splitlines()[-2:], err) == (["paused", "Rested."], "")


def test_another_thread_interrupts_the_main_one_which_goes_on_with_the_result(agent, serve):
    server = serve([Reply("", [Call("bash", {"command": "echo here; sleep 600"})])])
    out = run(
        agent.use(server),
        """
        import threading
        import agentcli
        from agentcli.events.progress import ToolOutput

        sleeps = threading.Event()
        def on_event(told):
            if isinstance(told, ToolOutput):
                sleeps.set()

        with agentcli.Session.open(on_event=on_event) as session:
            def interrupt():
                sleeps.wait()
                session.interrupt()
            threading.Thread(target=interrupt).start()
            result = session.send("Sleep.")
            print(result.exit_code, result.ending.reason, session.interrupt())
        """,
    )
    assert out == "130 interrupted False\n"


def test_a_session_does_one_thing_at_a_time(agent, serve):
    server = serve(
        [Reply("", [Call("again", {})]), Reply("Done."), Reply("Streamed."), Reply("Last.")]
    )
    out = run(
        agent.use(server),
        """
        import agentcli

        def refused(what, *given):
            try:
                what(*given)
            except agentcli.errors.UsageError as error:
                print(error.message)

        def again() -> None:
            "Do it again."
            refused(session.send, "Again.")
            refused(session.close)

        with agentcli.Session.open(tools=[again], allow=["again"]) as session:
            print(session.send("Begin.").answer)
            stream = session.stream("Tell.")
            next(stream)
            refused(session.send, "Meanwhile.")
            for told in stream:
                pass
            refused(session.send, " ")
            refused(session.send, None)
            print(session.send("Once more.").answer)
        session.close()
        refused(session.send, "After all.")
        refused(lambda: agentcli.run("Order.", tools=again))
        refused(lambda: agentcli.run("Order.", allow="again"))
        """,
    )
    assert out.splitlines() == [
        "the session is at work",
        "the session is at work",
        "Done.",
        "a stream of the session is not over",
        "the message is empty",
        "a message is text, and this is None",
        "Last.",
        "the session is closed",
        "tools is a list",
        "allow is a list",
    ]


def test_what_is_wrong_is_raised_by_its_kind(agent):
    out = run(
        agent,
        '''
        import agentcli
        from agentcli.errors import AgentError

        def no_words(part: str) -> str:
            return part

        def untyped(part) -> str:
            """Does something."""

        def fine() -> None:
            """Does nothing."""

        call = {"id": 3, "timestamp": "2026-01-01T00:00:00Z", "action": "run",
                "args": {"command": "ls"}, "tool_call_metadata": {"function_name": "bash",
                "tool_call_id": "c", "raw_arguments": "{}"}}
        for options in (
            {"session_id": "none"}, {"modle": "sonnet"}, {"tools": [no_words]},
            {"tools": [untyped]}, {"tools": [lambda: 1]}, {"tools": [fine, fine]},
            {"workspace": "/nowhere"}, {"model": "no/such"}, {"permission_mode": "maybe"},
            {"settings": {"agent.max_turn": 1}}, {"allow": ["bash("]},
            {"session_id": "x", "name": "y"}, {"initial_events": [{}]}, {"initial_events": [call]},
            {"output_schema": {"type": 3}}, {"check": "no-such-program"}, {"approve": "yes"},
        ):
            try:
                agentcli.run("Do it.", **options)
            except AgentError as error:
                print(type(error).__name__, error.message)
        ''',
    )
    lines = out.splitlines()
    assert len(lines) == 17, out
    assert lines[16] == "UsageError approve is a function, and this is 'yes'"
    assert lines[0] == "UsageError there is no session 'none'"
    assert lines[1].startswith("UsageError there is no option 'modle'")
    assert "no docstring" in lines[2]
    assert "part has no type hint" in lines[3]
    assert "two tools are named 'fine'" in lines[5]
    assert lines[6].startswith("ConfigError there is no folder /nowhere")
    assert lines[13] == (
        "UsageError initial_events[0], a call of bash, has no observation that names it as its "
        "cause"
    )
    assert lines[14].startswith("UsageError output_schema: it is not a JSON Schema")
    assert "no command 'no-such-program'" in lines[15]
    assert agent.sessions == []
