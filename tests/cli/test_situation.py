"""Where the model is told to be after a condensation, a kill and a resume."""

from __future__ import annotations

import signal

from tests.cli.test_run import wait_for
from tests.scripted import bash, call
from tests.server import Reply

HEAD = "[Where you are now, after event"


def situations(request) -> list[str]:
    texts = [str(message["content"]) for message in request.body["messages"]]
    return [text for text in texts if text.startswith(HEAD)]


def test_after_a_kill_the_model_knows_where_it_is(agent, serve, repository):
    tasks = [
        {"title": "look", "status": "done"},
        {"title": "fix", "status": "in_progress", "notes": "in the parser"},
    ]
    script = [
        call("todo", tasks=tasks),
        call("write", path="new.py", content="a = 1\n"),
        call("bash", command="sleep 100 # a server", background=True),
        bash("mkdir -p sub && cd sub"),
        bash("touch begun; sleep 100"),
        Reply("Done."),
    ]
    server = agent.asks(serve(script))
    process = agent.start("run", "--deny", "bash(git push:*)", "go")
    wait_for(agent.workspace / "sub" / "begun", process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    agent.ok("resume", "--last", "--deny", "bash(git push:*)")
    (told,) = situations(server.requests[-1])
    for part in (
        f"- the shell is in {agent.workspace}/sub\n",
        "- commands run in a sandbox (",
        "no network",
        "- rules of the user: deny bash(git push:*)",
        "- job-1 (sleep 100 # a server) ended with agent; log: ",
        "?? new.py",
        "- files that you edited or wrote: new.py",
        "fix (in_progress): in the parser",
    ):
        assert part in told, told
    assert "look" not in told


def test_a_condensation_leaves_one_note_and_it_is_of_now(agent, serve):
    """Also where the session was resumed before, whose note it replaces."""
    much = [bash(f"seq {n}000 {n}999; mkdir -p d{n}; cd d{n}") for n in range(1, 4)]
    compact = call("recall", compact="the numbers")
    script = [*much, Reply("one"), *much, compact, Reply("A summary."), Reply("two")]
    server = agent.asks(serve(script, sessions=4))
    agent.ok("run", "count")
    agent.ok("resume", "--last", "more")
    (told,) = situations(server.requests[-1])
    assert f"- the shell is in {agent.workspace}/d1/d2/d3/d1/d2/d3\n" in told
    assert [len(situations(request)) for request in server.requests[4:7]] == [1, 1, 1]
