"""What runs unasked, what is asked, what never runs: the table of docs/safety.md."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agentcli.errors import ToolError
from agentcli.events.actions import (
    CmdRunAction,
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    IPythonRunCellAction,
    MemoryAction,
    SearchAction,
    ToolCallAction,
)
from agentcli.events.base import Risk
from agentcli.security.policy.policy import Policy
from agentcli.security.policy.rules import parse_grants, parse_rule
from agentcli.workspace.scope import AccessScope, Coverage
from tests.tables import each_row

EFFECTS = {
    "run": "execute",
    "run_ipython": "execute",
    "read": "read",
    "grep": "read",
    "write": "write",
    "edit": "write",
    "fetch": "network",
    "mcp__db__drop": "execute",
    "reformat": "write",
    "memory": "write",
}
MODES = {
    "plan": {"mode": "plan", "contained": True},
    "ask, sandbox": {"mode": "ask", "contained": True},
    "ask, no sandbox": {"mode": "ask", "contained": False},
    "auto-edit, no sandbox": {"mode": "auto-edit", "contained": False},
    "yolo": {"mode": "yolo", "contained": False},
}


@dataclass
class World:
    """A workspace with a secret beside it, and policies for it."""

    home: Path
    settings: dict[str, object] = field(default_factory=dict)
    rated: list[str] = field(default_factory=list)
    left_out: list[Path] = field(default_factory=list)

    @property
    def workspace(self) -> Path:
        return self.home / "work"

    def locate(self, text: str) -> Path:
        if "\0" in text:
            raise ToolError("no file has that name")
        return self.workspace / text

    def rate(self, action: object) -> tuple[Risk, str]:
        text = getattr(action, "command", "") + (getattr(action, "path", "") or "")
        self.rated.append(text)
        return (Risk.HIGH, "it is dangerous") if "danger" in text else (Risk.MEDIUM, "")

    def policy(self, *rules: str, **settings: object) -> Policy:
        parsed = []
        for text in rules:
            decision, _, rest = text.partition(" ")
            parsed.append(parse_rule(rest, decision, "the settings"))
        values = {"mode": "ask", "contained": True, **settings}
        coverage = Coverage(self.workspace, frozenset(self.left_out), 100)
        values.setdefault("coverage", lambda: coverage)
        if isinstance(git := values.get("git"), Repository):
            values["git"] = lambda: git
        return Policy(
            scope=AccessScope(
                self.workspace,
                self.home,
                (self.workspace,),
                protected=(self.workspace / ".git" / "hooks",),
                hidden=(self.home / ".ssh",),
            ),
            rules=tuple(parsed),
            effect_of=lambda action: EFFECTS[getattr(action, "name", action.kind)],
            locate=self.locate,
            rate=self.rate,
            blocked=lambda a: "it ends the system" if "halt" in getattr(a, "command", "") else "",
            **values,
        )

    def decide(self, action, *rules: str, grants=(), **settings: object):
        return self.policy(*rules, **settings).decide(action, grants)


@pytest.fixture
def world(tmp_path):
    (tmp_path / "work" / "src").mkdir(parents=True)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "work" / "link").symlink_to("/etc")
    (tmp_path / "work" / "key").symlink_to(tmp_path / ".ssh" / "id")
    return World(tmp_path)


def run(command: str, **fields: object) -> CmdRunAction:
    return CmdRunAction(command=command, **fields)


def call(name: str, **about: str) -> ToolCallAction:
    return ToolCallAction(name=name, raw_arguments=json.dumps(about), **about)


ACTIONS = {
    "read": FileReadAction(path="src/x"),
    "search": SearchAction(pattern="x"),
    "read-only command": run("git status | head"),
    "edit": FileEditAction(path="src/x"),
    "edit outside": FileEditAction(path="../x"),
    "edit by link": FileWriteAction(path="link/x", content=""),
    "hooks": FileWriteAction(path=".git/hooks/x", content=""),
    "command": run("make"),
    "background": run("make", background=True),
    "python": IPythonRunCellAction(code="print(1)"),
    "input": run("yes", is_input=True),
    "network": run("make", network=True, reason="to fetch"),
    "unsandboxed": run("make", unsandboxed=True),
    "page": call("fetch", url="https://example.org"),
    "note": MemoryAction(command="add", target="memory", text="x"),
    "note on the user": MemoryAction(command="add", target="user", text="x"),
    "other tool": call("mcp__db__drop"),
    "high risk": run("danger"),
    "high risk edit": FileEditAction(path="src/danger"),
    "status of a job": run("status", job="1"),
    "stop of a job": run("stop", job="1"),
}
READS = ("read", "search", "read-only command", "status of a job")
EDITS = ("edit", "note")
CONTAINED = ("command", "background", "python", "input")
BEYOND = (
    *("edit outside", "edit by link", "hooks", "network", "unsandboxed", "page", "other tool"),
    "note on the user",
)
RISKY = ("high risk", "high risk edit")
TABLE = {
    "plan": {"allow": READS, "deny": (*EDITS, *CONTAINED, *BEYOND, *RISKY)},
    "ask, sandbox": {
        "allow": (*READS, *EDITS, *CONTAINED, *RISKY, "stop of a job"),
        "ask": BEYOND,
    },
    "ask, no sandbox": {
        "allow": (*READS, "stop of a job"),
        "ask": (*EDITS, *CONTAINED, *BEYOND, *RISKY),
    },
    "auto-edit, no sandbox": {
        "allow": (*READS, *EDITS),
        "ask": (*CONTAINED, *BEYOND, *RISKY),
    },
    "yolo": {"allow": (*READS, *EDITS, *CONTAINED, *BEYOND, *RISKY)},
}


@each_row(
    "mode, name, decision",
    [
        (mode, name, decision)
        for mode, kinds in TABLE.items()
        for decision, names in kinds.items()
        for name in names
    ],
)
def test_the_table(world, mode, name, decision):
    found = world.decide(ACTIONS[name], **MODES[mode])
    assert found.decision == decision, found.reason
    assert found.by == "policy"
    assert found.reason
    assert found.rule


@each_row("mode", MODES)
def test_hard_blocks_and_hidden_files_hold_in_every_mode(world, mode):
    blocked = world.decide(run("halt"), "allow bash(halt)", grants=("bash",), **MODES[mode])
    assert (blocked.decision, blocked.rule) == ("deny", "hard block")
    assert blocked.reason == "it ends the system"
    for path in ("../.ssh/id", "key", "src/../../.ssh/id"):
        for action in (FileReadAction(path=path), FileEditAction(path=path)):
            found = world.decide(action, "allow read", "allow edit", **MODES[mode])
            assert (found.decision, found.rule) == ("deny", "hidden"), path


@each_row(
    "command",
    [
        "cat ~/.ssh/id",
        "cat ../.ssh/id",
        "cat key",
        "cat ~/.ssh/*",
        "cd ~/.ssh && ls",
        "head < ~/.ssh/id",
        "grep -r x ~",
        "cat ~/*/id",
        "diff --from-file=../.ssh/id x",
        "cat ~root/x",
    ],
)
def test_without_a_sandbox_commands_that_name_hidden_files_are_asked(world, command):
    assert world.decide(run(command), contained=False).decision == "ask"
    assert world.decide(run(command), "allow bash(cat:*)", contained=False).decision == "ask"
    assert world.decide(
        run(f"make && {command}"), "allow bash(make)", contained=False
    ).decision == ("ask")


def test_without_a_sandbox_commands_that_name_a_place_no_one_can_resolve_are_asked(
    world, monkeypatch
):
    (world.workspace / "root").symlink_to("/")
    readlink = os.readlink

    def refused(path, **options):
        if str(path).endswith("/root"):
            raise PermissionError(13, "Permission denied", path)
        return readlink(path, **options)

    monkeypatch.setattr(os, "readlink", refused)
    for command in ("cat root/x", "ls root", "cat < root/x", "cat root/*"):
        assert world.decide(run(command), contained=False).decision == "ask", command
    assert world.decide(run("cat src/x"), contained=False).decision == "allow"


def test_deny_comes_before_ask_and_ask_before_allow(world):
    rules = ("allow bash(make:*)", "ask bash(make install:*)", "deny bash(make clean)")
    for order in (rules, rules[::-1]):
        assert world.decide(run("make all"), *order, contained=False).rule == "bash(make:*)"
        asked = world.decide(run("make install"), *order)
        assert (asked.decision, asked.rule) == ("ask", "bash(make install:*)")
        denied = world.decide(run("nice make clean"), *order, mode="yolo")
        assert (denied.decision, denied.rule) == ("deny", "bash(make clean)")
        assert "the settings" in denied.reason


def test_yolo_grants_what_a_rule_asks_for_but_not_what_may_be_denied(world):
    assert world.decide(run("make"), "ask bash(make)", mode="yolo").decision == "allow"
    unclear = world.decide(run("eval $x"), "deny bash(git push:*)", mode="yolo")
    assert unclear.decision == "ask"
    assert "may deny it" in unclear.reason
    assert world.decide(run("python -c 1"), "deny bash(git push:*)", mode="yolo").decision == (
        "allow"
    )


def test_what_a_person_allowed_beats_the_question_about_risk(world):
    risky = {"confirm": "confirm_risky"}
    assert world.decide(run("danger x"), "allow bash(danger:*)", **risky).decision == "allow"
    assert world.decide(run("danger x"), grants=("bash(danger x)",), **risky).decision == "allow"
    assert world.decide(run("danger y"), grants=("bash(danger x)",), **risky).decision == "ask"
    pushed = run("git push", network=True)
    assert world.decide(pushed).decision == "ask"
    assert world.decide(pushed, grants=("bash(git push:*)",)).decision == "allow"
    assert world.decide(FileEditAction(path="/etc/x"), grants=("edit(/etc/x)",)).decision == "allow"


def test_input_to_a_program_never_runs_by_a_rule(world):
    typed = run("make", is_input=True)
    assert world.decide(typed, "allow bash(make)", contained=False).decision == "ask"


def test_a_rule_is_for_the_workspace_wherever_the_shell_has_gone(world):
    rules = ("allow bash(make:*)", "allow bash(./run)", "allow bash(git commit:*)")

    def decide(command: str, folder: Path | None) -> str:
        cwd = str(folder or "")
        return world.decide(run(command), *rules, contained=False, cwd=lambda: cwd).decision

    inside, outside = world.workspace / "src", world.home
    assert decide("make", None) == decide("make", inside) == "allow"
    assert decide("make", outside) == decide("cd .. && make", None) == "ask"
    assert decide("./run", world.workspace) == "allow"
    assert decide("./run", inside) == decide("cd src && ./run", None) == "ask"
    assert decide("git commit", world.workspace) == "allow"
    assert decide("git commit", inside) == decide("cd src && git commit", None) == "ask"


def test_a_redirect_must_stay_where_writing_is_unasked(world):
    rule = "allow bash(make:*)"
    inside, outside = f"make > {world.workspace}/log", "make > /etc/x"
    assert world.decide(run(inside), rule, contained=False).decision == "ask"
    free = {"mode": "auto-edit", "contained": False}
    assert world.decide(run(inside), rule, **free).decision == "allow"
    assert world.decide(run(outside), rule, **free).decision == "ask"
    assert world.decide(run("make > log"), rule, **free).decision == "ask"
    assert world.decide(run(f"make > {world.workspace}/link/x"), rule, **free).decision == "ask"
    escaping = run(outside, unsandboxed=True)
    assert world.decide(escaping, rule).decision == "ask"
    assert world.decide(run(outside), rule, confirm="always").decision == "allow", "contained"


def test_a_question_tells_the_folder_that_commands_run_in_elsewhere(world):
    def reason(action, folder: Path) -> str:
        return world.decide(action, contained=False, cwd=lambda: str(folder)).reason

    elsewhere = f"; it would run in {world.home}"
    assert reason(run("rm -r build"), world.home).endswith(elsewhere)
    assert "it would run in" not in reason(run("rm -r build"), world.workspace)
    for other in (run("ls"), run("stop", job="1"), run("yes", is_input=True), ACTIONS["edit"]):
        assert "it would run in" not in reason(other, world.home)


def test_confirm_decides_about_risk(world):
    assert world.decide(run("danger"), confirm="never").decision == "allow"
    assert world.decide(run("make"), confirm="always").decision == "ask"
    assert world.decide(run("ls"), confirm="always").decision == "allow"
    found = world.decide(run("danger"), confirm="confirm_risky")
    assert (found.risk, found.reason) == (Risk.HIGH, "high risk: it is dangerous")
    asked = world.decide(run("danger"), contained=False)
    assert "it is dangerous" in asked.reason
    assert "no sandbox" in asked.reason


def test_what_is_contained_and_can_be_undone_is_not_judged_by_its_words(world):
    for mode in ("ask", "auto-edit"):
        assert world.decide(run("danger"), mode=mode).decision == "allow"
        assert world.decide(IPythonRunCellAction(code="danger"), mode=mode).decision == "allow"
    assert world.rated == []
    for kept in (None, Coverage(world.workspace, failure="the disk is full")):
        told = world.decide(run("danger"), coverage=lambda kept=kept: kept)
        assert (told.decision, told.rule) == ("ask", "risk"), "nothing brings it back"
        assert world.decide(run("make"), coverage=lambda kept=kept: kept).decision == "allow"
    assert world.decide(run("danger"), network=True).decision == "ask", "it may act elsewhere"
    assert world.decide(run("danger"), contained=False).decision == "ask"
    assert world.decide(run("danger"), mode="plan").decision == "deny"


LOST = """
rm -rf data
rm -r data/raw
rm -rf data/*
rm -rf *
mv big.bin /tmp/x
cp src/a big.bin
echo x > big.bin
make && rm big.bin
truncate -s 0 big.bin
git clean -fdx
git checkout -- big.bin
git -C . rm -f big.bin
find . -name '*.bin' -delete
find . -name data -exec rm -rf {} +
find data | xargs rm -rf
sqlite3 big.bin 'drop table x'
sh -c 'rm -rf data'
chmod -R 777 /etc
""".strip().splitlines()
NOT_LOST = """
rm -rf build
rm -rf node_modules
rm -rf node_modules/x
rm -rf src
rm gone.bin
mv big.bin bigger.bin
mv big.bin data/
cat big.bin
echo x >> big.bin
echo x > data/small
rm data/small
rm -rf data/few
cp big.bin src/
git clean -n
git clean -fdx -e data -e '*.bin'
git clean -fdx src
git checkout -- src
find . -name '*.pyc' -delete
find . -not -path './data/*' -name '*.tmp' -delete
find . -empty -delete
find src -delete
sqlite3 big.bin 'select 1'
rm -rf $UNKNOWN
python3 make.py
chmod -R 777 .
""".strip().splitlines()


@pytest.fixture
def holding(world):
    """A file over the limit, an ignored folder over the limit, and one that tools make."""
    for name, size in {"big.bin": 200, "data/raw": 500, "data/small": 5, "data/few/a": 5}.items():
        path = world.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    (world.workspace / "node_modules/x").mkdir(parents=True)
    names = ("big.bin", "data", "node_modules", "gone.bin")
    world.left_out = [world.workspace / name for name in names]
    return world


@each_row("command", LOST)
def test_what_names_a_thing_that_no_checkpoint_holds_is_asked(holding, command):
    told = holding.decide(run(command))
    assert (told.decision, told.rule) == ("ask", "reach"), told.reason
    assert holding.decide(run(command), confirm="confirm_risky").decision == "ask"
    assert holding.decide(run(command), confirm="never").decision == "allow"


@each_row("command", NOT_LOST)
def test_what_names_nothing_of_that_kind_runs(holding, command):
    assert holding.decide(run(command)).decision == "allow"


@each_row(
    "code, decision",
    [
        ("import shutil; shutil.rmtree('data')", "ask"),
        ("open('big.bin', 'w')", "ask"),
        ("import os; os.system('rm big.bin')", "ask"),
        ("import os; os.rename('big.bin', 'x.bin')", "allow"),
        ("open('big.bin').read()", "allow"),
        ("import shutil; shutil.rmtree('build')", "allow"),
    ],
)
def test_the_same_of_python_code(holding, code, decision):
    assert holding.decide(IPythonRunCellAction(code=code)).decision == decision


def test_small_files_in_such_a_place_are_kept_when_they_are_named(holding):
    policy = holding.policy()
    coverage = policy.coverage()
    assert policy.losses(run("rm data/small"), coverage).checkpointable == [
        holding.workspace / "data/small"
    ]
    assert policy.losses(run("rm -r data/few"), coverage).checkpointable == [
        holding.workspace / "data/few/a"
    ]
    assert policy.losses(run("make"), coverage).checkpointable == []


def test_a_refusal_quotes_the_part_that_it_is_about(holding):
    told = holding.decide(run("make && rm -rf data; make test"))
    assert told.reason == "it would delete data, which no checkpoint holds (`rm -rf data`)"
    denied = holding.decide(run("make; git push -f"), "deny bash(git push:*)")
    assert denied.reason.endswith("denies it (`git push -f`)")


def test_added_folders_have_no_checkpoints(world, tmp_path):
    added = tmp_path / "added"
    (added / "lib").mkdir(parents=True)
    (added / "lib/x").write_text("x")
    policy = world.policy()
    policy = replace(policy, scope=replace(policy.scope, writable=(world.workspace, added)))
    assert policy.decide(run(f"rm -rf {added}/lib"), ()).decision == "ask"
    assert policy.decide(run(f"sed -i s/x/y/ {added}/lib/x"), ()).decision == "allow"


def test_where_the_network_is_open_asking_for_it_is_nothing_more(world):
    assert world.decide(run("make", network=True), network=True).decision == "allow"
    assert world.decide(ACTIONS["page"], network=True).decision == "allow"
    assert world.decide(run("make", unsandboxed=True), network=True).decision == "ask"


def test_what_only_reads_is_not_rated(world):
    world.decide(run("ls"))
    world.decide(FileReadAction(path="x"))
    assert world.rated == []


def test_a_rule_about_notes_is_about_those_on_the_user_too(world):
    told = ACTIONS["note on the user"]
    assert world.decide(told, "allow memory").decision == "allow"
    assert world.decide(ACTIONS["note"], "deny memory", mode="yolo").decision == "deny"
    assert world.policy().grant_for(told) == "memory"


def test_a_path_that_can_not_be_is_refused(world):
    impossible = FileEditAction(path="a\0b")
    assert world.decide(impossible, mode="yolo").decision == "deny"
    assert world.policy().grant_for(impossible) == ""


@each_row(
    "command, grant",
    [
        ("git push origin main", "bash(git push:*)"),
        ("npm run test -- -x", "bash(npm run test:*)"),
        ("npm test", "bash(npm test:*)"),
        ("make all", "bash(make all:*)"),
        ("pytest -q tests", "bash(pytest:*)"),
        ("python -m pytest -q", "bash(python -m pytest:*)"),
        ("ls && git add . && git commit -m 'a; b'", "bash(git add:*); bash(git commit:*)"),
        ("timeout 60 npm test 2>&1 | tail", "bash(npm test:*)"),
        ("python3 x.py", "bash(python3 x.py)"),
        ("sudo apt update", "bash(sudo apt update)"),
        ("bash x.sh", "bash(bash x.sh)"),
        ("./run 'a b'", "bash(./run 'a b')"),
        ("rm -rf build", "bash(rm -rf build)"),
        ("git -C x push", "bash(git -C x push)"),
        ("git push --receive-pack=x", "bash(git push --receive-pack=x)"),
        ("docker run x", "bash(docker run x)"),
        ("npx x", "bash(npx x)"),
        ("find . -delete", "bash(find . -delete)"),
        ("python3 -c 'x'", ""),
        ("rm $x", ""),
        ("eval x $y", ""),
        ("PATH=. make all", ""),
        ("make all > /etc/x", ""),
        ("xargs rm", ""),
        ("echo 'a\nb' >x", ""),
        ("ls", ""),
    ],
)
def test_the_grant_is_the_narrowest_that_makes_sense(world, command, grant):
    policy = world.policy(contained=False)
    assert policy.grant_for(run(command)) == grant
    if grant:
        assert policy.decide(run(command), (grant,)).decision == "allow"


@each_row(
    "command, grant",
    [
        ("npm install left-pad", "bash(npm install left-pad)"),
        ("pip install requests", "bash(pip install requests)"),
        ("cargo add serde", "bash(cargo add serde)"),
        ("git push --force origin main", "bash(git push --force origin main)"),
        ("git push origin +main", "bash(git push origin +main)"),
        ("git commit --no-verify -m x", "bash(git commit --no-verify -m x)"),
    ],
)
def test_what_installs_or_is_dangerous_is_offered_as_it_is(world, command, grant):
    policy = world.policy(contained=False)
    assert policy.grant_choices(run(command)) == [grant]


@each_row(
    "command, choices",
    [
        (
            "git push -u origin main",
            ["git push -u origin main", "git push -u origin:*", "git push:*"],
        ),
        ("npm run build", ["npm run build", "npm run build:*"]),
        ("rm -rf build", ["rm -rf build"]),
        ("rm $x", []),
    ],
)
def test_a_rule_can_be_narrowed_down_to_the_very_words(world, command, choices):
    policy = world.policy(contained=False)
    assert policy.grant_choices(run(command)) == [f"bash({each})" for each in choices]
    for choice in choices:
        assert policy.grant_objection(run(command), f"bash({choice})") == ""


def test_choices_for_compounds_files_and_what_leaves_the_sandbox(world):
    policy = world.policy()
    compound = run("git add . && git push", network=True)
    assert policy.grant_choices(compound) == [
        "bash(git add .); bash(git push)",
        "bash(git add:*); bash(git push:*)",
    ]
    freed = run("git push", unsandboxed=True)
    assert policy.grant_choices(freed) == ["unsandboxed(git push)"]
    edit = FileEditAction(path="src/a.py")
    assert world.policy(contained=False).grant_choices(edit) == [
        f"edit({world.workspace}/src/a.py)",
        "edit(src/**)",
    ]


@each_row(
    "text, objection",
    [
        ("bash(git push origin:*)", ""),
        ("bash(git:*)", ""),
        ("bash(git push upstream:*)", "does not cover what is asked"),
        ("bash(git push", "is not a rule"),
        ("bash", "would allow every command"),
        ("", "write a rule"),
        ("bash(git push:*); bash(rm x)", "bash(rm x) is not needed"),
        ("edit(**)", "does not cover what is asked"),
        ("unsandboxed(git push origin main)", "does not cover what is asked"),
    ],
)
def test_a_rule_that_a_person_writes_is_checked(world, text, objection):
    policy = world.policy(contained=False)
    told = policy.grant_objection(run("git push origin main"), text)
    assert objection in told
    assert bool(told) == bool(objection)


def test_no_rule_is_offered_where_another_one_asks_all_the_same(world):
    policy = world.policy("ask bash(git push:*)", contained=False)
    assert policy.grant_for(run("git push origin main")) == ""


@each_row(
    "action, grant",
    [
        (FileEditAction(path="src/a.py"), "edit(src/**)"),
        (FileEditAction(path="/etc/[x]"), "edit(/etc/\\[x\\])"),
        (call("fetch", url="https://docs.example.org/x"), "fetch(domain:docs.example.org)"),
        (call("mcp__db__drop"), "mcp__db__drop"),
        (IPythonRunCellAction(code="1"), ""),
        (run("yes", is_input=True), ""),
    ],
)
def test_grants_of_other_tools(world, action, grant):
    policy = world.policy(contained=False)
    assert policy.grant_for(action) == grant
    if grant:
        assert parse_grants(grant)
        assert policy.decide(action, (grant,)).decision == "allow"


def test_a_file_at_the_top_of_the_workspace_is_granted_alone(world):
    policy = world.policy(contained=False)
    grant = policy.grant_for(FileEditAction(path="a.py"))
    assert policy.decide(FileEditAction(path="a.py"), (grant,)).decision == "allow"
    assert policy.decide(FileEditAction(path="b.py"), (grant,)).decision == "ask"
    assert policy.decide(FileEditAction(path="src/a.py"), (grant,)).decision == "ask"


def test_the_decision_tells_the_real_path_of_a_write_outside(world):
    write = FileEditAction(path="link/x")
    assert world.decide(write, mode="yolo").path == "/etc/x"
    assert world.decide(FileEditAction(path="src/x"), mode="yolo").path is None
    assert world.decide(FileReadAction(path="link/x"), mode="yolo").path is None


def test_only_a_rule_that_says_so_lets_a_command_out_of_the_sandbox(world):
    push = run("git push", unsandboxed=True, reason="ssh")
    assert world.decide(push, "allow bash(git push:*)").decision == "ask"
    assert world.decide(push, "allow unsandboxed(git push)").decision == "allow"
    assert world.decide(push, "deny bash(git push:*)").decision == "deny"
    assert world.decide(push, "deny unsandboxed").decision == "deny"
    assert world.decide(run("git push"), "deny unsandboxed").decision == "allow"
    more = run("git push origin main", unsandboxed=True, reason="ssh")
    assert world.decide(more, "allow unsandboxed(git push)").decision == "ask"
    assert world.policy().grant_for(more) == "unsandboxed(git push origin main)"
    assert world.policy().grant_for(run("git push", network=True)) == "bash(git push:*)"
    assert world.decide(push, "allow bash(git push:*)", contained=False).decision == "allow"


@dataclass
class Repository:
    """What is said of it; asked only where it matters."""

    reading: str = ""
    by_rule: str = ""
    variables: str = ""
    asked: list[object] = field(default_factory=list)

    def variables_objection(self, changed):
        return self.variables

    def reading_objection(self, folder):
        self.asked.append(folder)
        return self.reading

    def rule_objection(self, words, *, everywhere, exact, unsandboxed):
        self.asked.append((words[1], everywhere, exact, unsandboxed))
        return self.by_rule


@each_row("mode", ["ask", "auto-edit", "plan"])
def test_git_reads_only_where_its_repository_runs_nothing(world, mode):
    looks = run("git status | head")
    for git, reads in ((Repository(), True), (Repository("a monitor"), False)):
        told = world.decide(looks, mode=mode, contained=False, git=git)
        assert (told.decision == "allow") is reads
        assert ("a monitor" in told.reason) is not reads
        assert git.asked == [Path(world.workspace)]
    hostile = Repository("a monitor")
    assert world.decide(looks, contained=True, git=hostile).decision == "allow"
    assert hostile.asked == [], "what is contained runs whatever it is"
    told = world.decide(looks, contained=True, confirm="always", git=hostile)
    assert told.decision == "ask"
    wider = run("git status", network=True, reason="x")
    assert world.decide(wider, "allow bash(make:*)", git=hostile).decision == "ask"
    assert world.decide(looks, contained=False, git=Repository(variables="x")).decision == "ask"
    assert world.decide(run("ls | head"), contained=False, git=hostile).decision == "allow"


def test_a_rule_is_not_enough_for_git_where_something_is_new(world):
    push = run("git push evil", network=True, reason="x")
    allow = "allow bash(git push:*)"
    git = Repository()
    assert world.decide(push, allow, git=git).decision == "allow"
    assert git.asked == [("push", True, False, False)]
    told = world.decide(push, allow, git=Repository(by_rule="evil is no remote"))
    assert told.decision == "ask"
    assert "bash(git push:*) is not enough: evil is no remote" in told.reason
    assert world.decide(push, allow, git=Repository(variables="PATH")).decision == "ask"
    granted = Repository()
    assert world.decide(push, grants=("bash(git push evil)",), git=granted).decision == "allow"
    assert granted.asked == [("push", False, True, False)]
    free = run("git push evil", unsandboxed=True, reason="x")
    world.decide(free, "allow unsandboxed(git push evil)", git=(asked := Repository()))
    assert asked.asked == [("push", True, True, True)]
    new = Repository(by_rule="new")
    assert world.decide(push, allow, mode="yolo", git=new).decision == "allow"
    assert world.decide(push, "allow bash", git=new).decision == "allow"
    assert world.decide(run("git push evil"), allow, git=new).decision == "allow", "contained"


def test_it_is_told_why_a_rule_does_not_cover_a_command(world):
    told = world.decide(run("frob x", network=True, reason="x"), "allow bash(frob:*)")
    assert told.decision == "ask"
    assert "bash(frob:*) is not enough: this command is not contained, so only" in told.reason
    told = world.decide(run("git push --exec=x"), "allow bash(git push:*)", contained=False)
    assert "bash(git push:*) is not enough: it does not cover --exec=x" in told.reason
    assert world.decide(run("frob x"), "allow bash(frob:*)").decision == "allow"


def test_a_rule_for_all_commands_gives_reading_ones_the_network_too(world):
    reads = run("echo hi", network=True)
    assert world.decide(reads, "allow bash(make:*)").decision == "ask"
    assert world.decide(reads, "allow bash").decision == "allow"
