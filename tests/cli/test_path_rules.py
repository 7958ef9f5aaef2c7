"""What rules with patterns for paths cover, and what the user sees of one that covers nothing."""

from __future__ import annotations

import pytest

from tests.server import Call, Reply


@pytest.mark.parametrize(
    ("rule", "denied", "spared"),
    [
        ("edit(app/[id]/page.tsx)", "app/[id]/page.tsx", "app/[id]/other.tsx"),
        ("edit(app/[id]/**)", "app/[id]/deep/new", "app/x/new"),
        ("edit([...slug].ts)", "in/[...slug].ts", "in/slug.ts"),
        ("edit(app/[id]/[a-c].ts)", "app/[id]/b.ts", "app/[id]/d.ts"),
        (r"edit(app/\[id\]/*)", "app/[id]/x", "app/i/x"),
        ("edit({a,b}/**)", "b/x", "c/x"),
        ("edit(src/{x,y{1,2}}.py)", "src/y2.py", "src/y.py"),
        ("edit({slug}/x)", "{slug}/x", "slug/x"),
        (r"edit(\*.md)", "*.md", "a.md"),
        ("edit([[:upper:]]*)", "Makefile", "makefile"),
        ("edit(caf\u00e9.md)", "cafe\u0301.md", "cafe.md"),
    ],
)
def test_a_rule_covers_what_it_names(agent, serve, rule, denied, spared):
    calls = [Call("write", {"path": path, "content": "x"}) for path in (denied, spared)]
    agent.use(serve([Reply("", [call]) for call in calls] + [Reply("Done.")]))
    done = agent("run", "--yolo", "--deny", rule, "x")
    assert not (agent.workspace / denied).exists()
    assert (agent.workspace / spared).exists()
    assert "matches nothing" not in done.stderr


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("edit(src/[a-z/x)", "its wildcards are incomplete"),
        ("read([[:letters:]])", "its wildcards are incomplete"),
        ("edit(a\\)", "its wildcards are incomplete"),
        ("edit(*/../x)", "its wildcards are incomplete"),
        ("frobnicate", "no tool is named frobnicate"),
    ],
)
@pytest.mark.parametrize("flag", ["--deny", "--allow"])
def test_a_rule_that_covers_nothing_is_reported(agent, serve, flag, rule, why):
    done = agent.use(serve([Reply("Done.")])).ok("run", flag, rule, "x")
    [line] = [line for line in done.stderr.splitlines() if "matches nothing" in line]
    assert why in line
    assert repr(rule) in line


def test_an_incomplete_wildcard_that_is_a_name_is_one(agent, serve):
    (agent.workspace / "a[").write_text("before\n")
    write = Reply("", [Call("write", {"path": "a[", "content": "after\n"})])
    done = agent.use(serve([write, Reply("Done.")]))("run", "--yolo", "--deny", "edit(a[)", "x")
    assert (agent.workspace / "a[").read_text() == "before\n"
    assert "matches nothing" not in done.stderr
