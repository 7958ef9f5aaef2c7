"""Makes the recordings beside this file: `python -m tests.recordings.make [NAME …]`.

Each is a session of another kind. `tests/test_recordings.py` does them again; after a change that
is meant to change what comes of a call, they are made anew and looked at in the diff.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.cli.test_delegation import by_task, delegate
from tests.conftest import PYTHON, Agent, git
from tests.emulated import Emulated
from tests.server import Call, ModelServer, Reply

HERE = Path(__file__).parent
PLACE = Path(tempfile.gettempdir()) / "recorded"
"""Where the sessions work: it is in the recordings, and not there when they are verified."""


def bash(command: str, **more: object) -> Call:
    return Call("bash", {"command": command, **more})


def one(*calls: Call, text: str = "") -> Reply:
    return Reply(text, list(calls))


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)


def record(agent: Agent, name: str, replies: Sequence[object], *flags: str) -> None:
    """A run in one go."""
    with ModelServer(list(replies)) as server:
        agent.use(server)
        done = agent("run", "--record", str(HERE / f"{name}.jsonl"), *flags, TASKS[name])
        assert done.returncode in (0, 1, 5), done.stderr


def fix_a_bug(agent: Agent, name: str) -> None:
    """Tests fail, the cause is found, edited and tested."""
    write(
        agent.workspace,
        {
            "total.sh": "#!/bin/sh\nawk '{ sum += $1 } END { print sum }' \"$1\"\n",
            "test.sh": "#!/bin/sh\nprintf '2 a\\n3 b\\n' > in.txt\n"
            "got=$(./total.sh in.txt 2)\n"
            '[ "$got" = 10 ] && echo ok || { echo "got $got"; exit 1; }\n',
        },
    )
    git(agent.workspace, "init", "-q")
    git(agent.workspace, "add", ".")
    git(agent.workspace, "commit", "-qm", "start")
    edit = {"path": "total.sh", "old_str": "{ print sum }", "new_str": "{ print sum * f }"}
    more = {"path": "total.sh", "old_str": "awk '", "new_str": 'awk -v f="${2:-1}" \''}
    script = [
        one(bash("./test.sh"), text="I run the test."),
        one(Call("read", {"path": "total.sh"}), Call("grep", {"pattern": "total"})),
        one(Call("edit", edit), Call("edit", more), bash("./test.sh && git status --short")),
        Reply("The factor was not used; now it is."),
    ]
    record(agent, name, script)


def shell_state(agent: Agent, name: str) -> None:
    """A shell that keeps its folder, variables and functions; ways to fail."""
    write(agent.workspace, {"src/a.txt": "one\n", "src/b.txt": "two\nthree\n"})
    script = [
        one(bash("cd src && export STYLE=short && greet() { echo hello $1 $STYLE; }")),
        one(bash("pwd; greet you; ls -S"), bash("wc -l *.txt"), bash("echo ${TZ:-no zone}")),
        one(bash("no-such-program; echo $?"), bash("exit 3"), bash("greet again; pwd")),
        one(bash("cat <<'END'\n$STYLE\nEND\nfalse | true; echo $?; ls missing")),
        one(
            bash("date -d @86400 -u +%F; date +%F; sleep 0.1; echo took 0.1 s; mktemp; echo pid $$")
        ),
        Reply("All of it."),
    ]
    record(agent, name, script)


def files_of_all_kinds(agent: Agent, name: str) -> None:
    """Files written, edited, taken back, searched; links, modes, names and bytes that are no
    text."""
    write(agent.workspace, {f"pkg/part{i}.py": f"VALUE = {i}\n" for i in range(5)})
    write(agent.workspace, {"run.sh": "#!/bin/sh\necho ran\n", "long.txt": "line\n" * 300})
    (agent.workspace / "data.bin").write_bytes(bytes(range(256)))
    (agent.workspace / "latest").symlink_to("pkg/part3.py")
    (agent.workspace / "empty").mkdir()
    (agent.workspace / os.fsdecode(b"caf\xe9.txt")).write_text("coffee\n")
    old = {"path": "pkg/part1.py", "old_str": "VALUE = 1", "new_str": "VALUE = 11"}
    none = {"path": "pkg/part1.py", "old_str": "VALUE = 7", "new_str": ""}
    script = [
        one(Call("glob", {"pattern": "**/*.py"}), Call("read", {"path": "latest"})),
        one(Call("glob", {"pattern": "caf*"}), bash("cat caf*.txt")),
        one(Call("read", {"path": "long.txt", "start": 290}), Call("read", {"path": "data.bin"})),
        one(Call("edit", old), Call("edit", none), Call("read", {"path": "pkg/part1.py"})),
        one(Call("edit", {"path": "pkg/part1.py", "undo": True})),
        one(Call("write", {"path": "new/deep.txt", "content": "über\n"}), bash("./run.sh")),
        one(bash("cat latest; stat -c '%a %n' run.sh; ls -A empty; cmp data.bin data.bin")),
        one(Call("grep", {"pattern": "VALUE", "path": str(agent.workspace)})),
        one(Call("finish", {"status": "success", "answer": "Looked at, and one file added."})),
    ]
    record(agent, name, script)


def python_cells(agent: Agent, name: str) -> None:
    """An interpreter that keeps its state, and a plan that is kept."""
    write(agent.workspace, {"rows.csv": "name,n\na,1\nb,2\n"})
    todo = {"tasks": [{"title": "read", "status": "done"}]}
    cells = (
        "import csv; rows = list(csv.DictReader(open('rows.csv'))); len(rows)",
        "sum(int(row['n']) for row in rows)",
        "with open('sum.txt', 'w') as file: print(file.write('3'))",
    )
    script = [
        *(one(Call("python", {"code": code})) for code in cells),
        one(Call("todo", todo), bash("cat sum.txt")),
        Reply("3."),
    ]
    record(agent, name, script, *PYTHON)


def jobs_and_input(agent: Agent, name: str) -> None:
    """A job in the background, looked at and stopped; a program that asks a question."""
    question = "read -p 'name? ' name; echo hi $name"
    script = [
        one(bash("for i in 1 2 3; do echo part $i; done", background=True)),
        one(bash("status", job="job-1"), bash("sleep 300", background=True)),
        one(bash("stop", job="job-2")),
        one(bash(question, is_input=True)),
        one(bash("Ann", is_input=True)),
        Reply("Done."),
    ]
    record(agent, name, script)


def git_history(agent: Agent, name: str) -> None:
    """A repository is made, committed to, branched and compared."""
    write(agent.workspace, {"a.txt": "1\n"})
    who = "git config user.name t; git config user.email t@localhost"
    script = [
        one(bash("git init -q -b main . && git add -A && git status --short")),
        one(bash(f"export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@x; {who}; git commit -m first")),
        one(
            bash(
                "GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@x GIT_AUTHOR_NAME=t "
                "GIT_AUTHOR_EMAIL=t@x git commit -m first; git log --oneline; git log -1"
            )
        ),
        one(Call("write", {"path": "a.txt", "content": "2\n"}), bash("git diff; git branch -a")),
        Reply("Committed."),
    ]
    record(agent, name, script)


def mistakes_of_the_model(agent: Agent, name: str) -> None:
    """Calls that no tool takes, replies of which nothing can be used."""
    script = [
        one(Call("bash", '{"command": ')),
        one(Call("no_such_tool", {"x": 1}), Call("read", {"file": "a"})),
        Reply(""),
        Reply("half of", finish="length"),
        one(bash("echo better")),
        Reply("Got there."),
    ]
    record(agent, name, script)


def refused(agent: Agent, name: str) -> None:
    """What needs more than there is, and nobody to ask."""
    write(agent.workspace, {"keep.txt": "kept\n"})
    script = [
        one(bash("curl example.org", network=True, reason="to see"), bash("echo not run")),
        one(bash("rm -rf /"), bash("echo not run either")),
        one(Call("write", {"path": "/etc/agent-was-here", "content": "x"})),
        one(bash("touch /usr/x 2> /dev/null || cat keep.txt")),
        Reply("Not allowed."),
    ]
    record(agent, name, script)


def asked_and_delegated(agent: Agent, name: str) -> None:
    """A person answers and allows; a child looks for something."""
    write(agent.workspace, {"facts.txt": "the answer is 42\n"})
    wider = {"command": "echo from outside > more.txt", "unsandboxed": True, "reason": "to try"}
    play = by_task(
        parent=[
            one(Call("ask", {"question": "Which?", "options": ["red", "blue"]})),
            one(delegate("look for the answer")),
            one(Call("bash", wider)),
            one(bash("cat more.txt facts.txt")),
            Reply("Blue, and 42."),
        ],
        look=[one(Call("grep", {"pattern": "answer"})), Reply("facts.txt says 42.")],
    )
    with ModelServer([], play=play) as server:
        agent.use(server)
        recording = str(HERE / f"{name}.jsonl")
        terminal = Emulated(
            [*agent.command, "run", "--record", recording, TASKS[name]],
            agent.workspace,
            agent.environment,
            columns=80,
            rows=30,
        )
        terminal.until("something else: type it")
        terminal.type("2")
        terminal.until("Allow")
        terminal.type("y")
        assert terminal.ended() == 0
        terminal.close()


def two_turns(agent: Agent, name: str) -> None:
    """The shell is back in its folder with its variables; the person changes files between two
    turns, and takes back what a step did."""
    write(agent.workspace, {"list.txt": "a\n"})
    script = [
        one(bash("echo b >> list.txt; cat list.txt")),
        one(bash("export NAME='é; $x'; unset EDITOR; mkdir sub; cd sub")),
        Reply("Added b."),
        one(bash('echo "<$NAME> ${EDITOR-unset}"; pwd; cat ../list.txt; echo d >> ../list.txt')),
        Reply("Added d."),
        one(bash("cat ../list.txt")),
        Reply("Seen."),
    ]
    with ModelServer(script) as server:
        agent.use(server)
        assert agent("run", TASKS[name]).returncode == 0
        write(agent.workspace, {"list.txt": "a\nb\nc\n", "mine.txt": "mine\n"})
        assert agent("resume", "--last", "and d").returncode == 0
        assert agent("undo").returncode == 0
        assert agent("resume", "--last", "what is left?").returncode == 0
        assert agent("replay", "--save", str(HERE / f"{name}.jsonl")).returncode == 0


TASKS = {
    "fix_a_bug": "The test fails. Fix it.",
    "shell_state": "Try the shell.",
    "files_of_all_kinds": "Look at the files.",
    "python_cells": "Add up the rows.",
    "jobs_and_input": "Run something in the background.",
    "git_history": "Make a repository.",
    "mistakes_of_the_model": "Say something.",
    "refused": "Try what is not allowed.",
    "asked_and_delegated": "parent task",
    "two_turns": "Add b to the list.",
}


def make(name: str) -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    home, workspace = PLACE / "home", PLACE / name
    home.mkdir(parents=True)
    workspace.mkdir()
    maker: Callable[[Agent, str], None] = globals()[name]
    maker(Agent(home, workspace, {"PATH": "/usr/bin:/bin"}, preloaded=False), name)
    shutil.rmtree(PLACE)


if __name__ == "__main__":
    for name in sys.argv[1:] or TASKS:
        print(name)
        make(name)
