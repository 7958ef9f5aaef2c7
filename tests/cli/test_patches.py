"""Patches of one file as `apply_patch` takes them, as a call or a command:
https://github.com/openai/codex/blob/main/codex-rs/apply-patch/apply_patch_tool_instructions.md"""

from __future__ import annotations

import pytest

from tests.server import Call, Reply

TEXT = "def f():\n    x = 1\n    return x\n\n\ndef g():\n    x = 1\n    return x\n"
AFTER = "def f():\n    x = 1\n    return x\n\n\ndef g():\n    x = 2\n    return x\n"


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


UPDATE = patch("*** Update File: a.py", "@@ def g():", "-    x = 1", "+    x = 2", "     return x")


@pytest.fixture
def apply(agent, serve):
    """`apply(call, …)` has the model make calls, and returns what it was told of them."""

    def run(*calls: tuple[str, dict[str, object]], flags: tuple[str, ...] = ()) -> list[str]:
        server = serve([Reply("", [Call(*call) for call in calls]), Reply("Done.")], sessions=2)
        agent.use(server)("run", *flags, "x")
        return server.results

    return run


@pytest.mark.parametrize(
    "call",
    [
        ("apply_patch", {"input": UPDATE}),
        ("apply_patch", {"patch": UPDATE}),
        ("shell", {"command": ["apply_patch", UPDATE]}),
        ("shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{UPDATE}\nEOF"]}),
        ("bash", {"command": f"apply_patch <<'EOF'\n{UPDATE}\nEOF\n"}),
        ("bash", {"command": f'applypatch << "PATCH"\n{UPDATE}\nPATCH', "timeout": 10}),
    ],
)
def test_a_patch_updates_a_file_in_every_form(agent, apply, call):
    file = agent.workspace / "a.py"
    file.write_text(TEXT)
    [told] = apply(call)
    assert told.startswith("Edited a.py:")
    assert file.read_text() == AFTER
    agent.ok("undo")
    assert file.read_text() == TEXT


def test_parts_of_a_patch_mean_whole_lines_and_all_or_none_are_applied(agent, apply):
    file = agent.workspace / "a.py"
    file.write_text("maximum = 10\nx = 1\ny = 2")
    one = ("*** Update File: a.py", "@@", "-x = 1", "+x = 3", "@@")
    missing = ("apply_patch", {"input": patch(*one, "-um = 10")})
    right = ("apply_patch", {"input": patch(*one, " y = 2", "+z = 4", "*** End of File")})
    told = apply(missing, right)
    assert told[0].startswith("None of the 2 edits was made. Edit 2: old_str is not in a.py")
    assert told[1].startswith("Edited a.py:")
    assert file.read_text() == "maximum = 10\nx = 3\ny = 2\nz = 4\n"


def test_a_patch_adds_a_file(agent, apply):
    lines = ("*** Add File: new/b.py", "+a = 1", "+", "+b = 2")
    [told] = apply(("apply_patch", {"input": patch(*lines)}))
    assert told == "Created new/b.py: 3 lines."
    assert (agent.workspace / "new/b.py").read_text() == "a = 1\n\nb = 2\n"


def test_an_ambiguous_part_is_refused_with_its_places(agent, apply):
    (agent.workspace / "a.py").write_text(TEXT)
    unclear = patch("*** Update File: a.py", "-    x = 1", "+    x = 2")
    [told] = apply(("apply_patch", {"input": unclear}))
    assert "found 2 times in a.py, at lines 2, 7" in told


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (("*** Add File: a", "+1", "*** Add File: b", "+2"), "one call for each file"),
        (("*** Delete File: a.py",), "with bash"),
        (("*** Update File: a.py", "*** Move to: b.py", "-x", "+y"), "with bash"),
        (("*** Add File: b", "no plus"), "begins with +"),
    ],
)
def test_what_a_patch_may_not_do_is_refused_with_the_way(agent, apply, lines, why):
    (agent.workspace / "a.py").write_text(TEXT)
    [told] = apply(("apply_patch", {"input": patch(*lines)}))
    assert told.startswith("This patch was not applied")
    assert why in told
    assert [path.name for path in agent.workspace.iterdir()] == ["a.py"]


@pytest.mark.parametrize("flags", [("--deny", "edit(a.py)"), ("--approval", "plan")])
def test_a_patch_is_judged_as_the_edit_it_is(agent, apply, flags):
    (agent.workspace / "a.py").write_text(TEXT)
    command = f"apply_patch <<'EOF'\n{UPDATE}\nEOF"
    for call in [("apply_patch", {"input": UPDATE}), ("bash", {"command": command})]:
        assert "Not allowed" in apply(call, flags=("--allow", "bash", *flags))[0]
    assert (agent.workspace / "a.py").read_text() == TEXT


def test_a_command_that_does_more_than_to_patch_stays_a_command(agent, apply):
    (agent.workspace / "a.py").write_text(TEXT)
    command = f"cat > p <<'EOF'\n{UPDATE}\nEOF\nwc -l p"
    assert apply(("bash", {"command": command}))[0].startswith("7 p")
