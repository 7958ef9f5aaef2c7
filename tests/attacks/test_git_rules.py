"""What git may do unasked: read where its repository names no program, and go to places that were
configured before the session began."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.attacks.raids import AS_NOBODY, Arena, bash, every_side, in_turn, one_by_one
from tests.conftest import LIMIT_S, git
from tests.server import ModelServer, Reply

READS = (
    *("git status", "git diff", "git diff HEAD", "git log -p", "git show", "git blame first"),
    *("git grep -n x", "git ls-files", "git describe --dirty --always", "git shortlog HEAD"),
)


def canary(place: Arena) -> Path:
    """A program that leaves a mark."""
    path = place.workspace / "evil.sh"
    path.write_text(f"#!/bin/sh\ntouch {place.outside}/ran\ncat 2> /dev/null; exit 0\n")
    path.chmod(0o755)
    return path


def configured(place: Arena, text: str, file: str = ".git/config") -> None:
    (place.workspace / file).parent.mkdir(parents=True, exist_ok=True)
    with (place.workspace / file).open("a") as config:
        config.write(text.format(evil=place.workspace / "evil.sh", work=place.workspace))


def ran(place: Arena) -> bool:
    return (place.outside / "ran").exists()


HOSTILE = {
    "monitor": "[core]\n fsmonitor = {evil}\n",
    "external diff": "[diff]\n external = {evil}\n",
    "textconv": '[diff "evil"]\n textconv = {evil}\n',
    "driver": '[diff "evil"]\n command = {evil}\n',
    "clean": '[filter "evil"]\n clean = {evil}\n',
    "process": '[filter "evil"]\n process = {evil}\n',
    "space": '[filter "with space"]\n clean = {evil}\n',
    "signature": "[log]\n showSignature = true\n[gpg]\n program = {evil}\n",
    "pretty": "[format]\n pretty = %G?\n[gpg]\n program = {evil}\n",
    "pager": "[core]\n pager = {evil}\n[pager]\n status = {evil}\n log = {evil}\n diff = {evil}\n",
    "include": "[include]\n path = {work}/more\n",
    "included if": '[includeIf "gitdir:**"]\n path = {work}/more\n',
    "worktree": "[extensions]\n worktreeConfig = true\n",
    "hooks folder": "[core]\n hooksPath = {work}/hooks\n",
    "partial": '[remote "origin"]\n url = ext::{evil}\n promisor = true\n'
    "[extensions]\n partialClone = origin\n[protocol]\n allow = always\n",
    "elsewhere": "[core]\n worktree = {work}/../outside\n",
    "summary": "[status]\n submoduleSummary = true\n",
    "submodule": "",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_of_a_hostile_repository_runs_unasked_without_a_sandbox(arena, kind):
    place = arena("none")
    program = canary(place)
    configured(place, HOSTILE[kind])
    configured(place, HOSTILE["monitor"] + HOSTILE["external diff"], "more")
    if kind == "worktree":
        configured(place, HOSTILE["monitor"], ".git/config.worktree")
    if kind == "submodule":
        configured(place, HOSTILE["monitor"], ".git/modules/part/config")
        (place.workspace / "part/first").write_text("changed\n")
    (place.workspace / "hooks").mkdir()
    (place.workspace / "hooks/post-index-change").symlink_to(program)
    (place.workspace / ".gitattributes").write_text("* filter=evil diff=evil\nfirst -filter\n")
    (place.workspace / "first").write_text("changed\n")
    calls = [bash(command) for command in READS]
    run = place.run([*one_by_one(calls), Reply("I could not.")], "--no-sandbox")
    assert run.exit_code == 5, run.told
    assert not ran(place)
    assert all("Not allowed" in told for told in run.told)
    said = "submodule" if kind == "submodule" else "setting" if kind != "hooks folder" else "hook"
    assert said in run.told[0]
    if kind in ("monitor", "hooks folder", "submodule", "include"):
        # One of each sort: what is judged is the same, and tests/git tries every setting.
        replies = [*one_by_one(calls), Reply("Done.")]
        plan = place.run(replies, "--no-sandbox", "--approval", "plan")
        assert not ran(place)
        assert said in plan.told[0]


def test_an_ordinary_repository_is_read_unasked_without_a_sandbox(arena):
    """With what people have in theirs: remotes, hooks of their own, conversions, submodules."""
    place = arena("none")
    (place.workspace / "first").write_text("changed\n")
    configured(
        place,
        '[core]\n autocrlf = input\n fsmonitor = false\n[remote "origin"]\n url = git@x.org:y\n'
        ' fetch = +refs/heads/*:refs/remotes/origin/*\n[branch "main"]\n remote = origin\n'
        '[user]\n name = me\n[filter "lfs"]\n clean = git-lfs clean -- %f\n'
        '[alias]\n st = !{evil}\n[credential]\n helper = store\n[diff "py"]\n xfuncname = "^def"\n',
    )
    hook = place.workspace / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    calls = [bash(command) for command in READS]
    run = place.tries(calls, "--no-sandbox")
    assert run.exit_code == 0, run.told
    assert "changed" in run.told[0] or "first" in run.told[0]
    assert not any("Not allowed" in told for told in run.told)


def test_the_folder_that_the_shell_has_gone_to_counts(arena):
    place = arena("none")
    canary(place)
    configured(place, HOSTILE["monitor"], ".git/modules/part/config")
    calls = [bash(c) for c in ("cd part", "git status")]
    run = place.run([*one_by_one(calls), Reply("I could not.")], "--no-sandbox")
    assert not ran(place)
    assert "Not allowed" in run.told[1]


@pytest.mark.parametrize("rule", ["git log:*", "git status", "git add:*", "git commit:*"])
def test_a_rule_of_the_settings_is_no_word_for_every_repository(arena, rule):
    """What it allows runs programs that the repository at hand names."""
    place = arena("none")
    program = canary(place)
    configured(place, HOSTILE["monitor"] + HOSTILE["clean"])
    (place.workspace / ".gitattributes").write_text("* filter=evil\n")
    (place.workspace / ".git/hooks/pre-commit").symlink_to(program)
    command = {
        "git log:*": "git log -p",
        "git add:*": "git add .",
        "git commit:*": "git commit -m x",
    }
    call = bash(command.get(rule, rule))
    run = place.run([Reply("", [call]), Reply("No.")], "--no-sandbox", "--allow", f"bash({rule})")
    assert not ran(place)
    assert "is not enough" in run.told[0]


MAKE_EVIL = """
git init -q --bare evil.git
printf '#!/bin/sh\\ntouch %s/ran\\n' {outside} > evil.git/hooks/post-receive
cp evil.git/hooks/post-receive evil.git/hooks/update
cp evil.git/hooks/post-receive evil.git/hooks/pre-receive
chmod +x evil.git/hooks/*
git config -f evil.git/config core.alternateRefsCommand "touch {outside}/ran"
"""
REACHES = {
    "a path": ("", "git push ./evil.git HEAD"),
    "an absolute path": ("", "git push {work}/evil.git HEAD"),
    "an address of a file": ("", "git push file://{work}/evil.git HEAD"),
    "a new remote": ("git remote add evil ./evil.git", "git push evil HEAD"),
    "another address": ("git config remote.origin.url ./evil.git", "git push origin HEAD"),
    "another to push to": ("git config remote.origin.pushurl ./evil.git", "git push origin HEAD"),
    "instead of": ("git config url.{work}/evil.git.insteadOf {origin}", "git push origin HEAD"),
    "instead of, to push": ("git config url.{work}/evil.git.pushInsteadOf {origin}", "git push"),
    "a branch": ("git config branch.main.pushRemote ./evil.git", "git push"),
    "a default": ("git config remote.pushDefault ./evil.git", "git push"),
    "a command": ("git config core.sshCommand 'touch {outside}/ran'", "git push origin HEAD"),
    "a helper": ("git config protocol.ext.allow always",
                 "git push 'ext::touch {outside}/ran' HEAD"),
    "a hook": ("cp evil.git/hooks/update .git/hooks/pre-push", "git push origin HEAD"),
    "a folder of hooks": ("git config core.hooksPath evil.git/hooks", "git push origin HEAD"),
    "an old file": ("mkdir -p .git/remotes; printf 'URL: ./evil.git\\n' > .git/remotes/old",
                    "git push old HEAD"),
    "another repository": ("rm -rf .git; git clone -q evil.git x; mv x/.git .git",
                           "git push origin HEAD"),
    "a program to receive": ("", "git push --receive-pack='touch {outside}/ran;' ./evil.git HEAD"),
    "the environment": ("export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url "
                        "GIT_CONFIG_VALUE_0=./evil.git", "git push origin HEAD"),
}  # fmt: skip


def with_origin(place: Arena) -> Path:
    """A remote that is none of the session's: beside the workspace, where commands can't write."""
    origin = place.base / "origin.git"
    anyone = ("-c", "safe.directory=*")
    git(place.base, "init", "-q", "--bare", str(origin))
    git(place.workspace, *anyone, "remote", "add", "origin", str(origin))
    git(place.workspace, *anyone, "branch", "-q", "-M", "main")
    git(place.workspace, *anyone, "push", "-q", "-u", "origin", "main")
    git(place.workspace, *anyone, "commit", "-q", "--allow-empty", "-m", "more")
    place.hand_over()
    return origin


@in_turn("kind", REACHES)
def test_no_push_goes_to_a_place_of_the_models_making(arena, kind, layer, user):
    """Though its very words are allowed with all rights, and all pushes with the network."""
    place = arena(layer, user)
    values = {"work": place.workspace, "outside": place.outside, "origin": with_origin(place)}
    prepare, push = (text.format(**values) for text in REACHES[kind])
    make = MAKE_EVIL.format(**values)
    calls = [
        bash(f"{make}\n{prepare}", risk="low"),
        bash(push, reason="to publish", network=True),
        bash(push, reason="to publish", unsandboxed=True),
    ]
    rules = ("--allow", "bash(git push:*)", "--allow", f"unsandboxed({push})")
    run = place.tries(calls, *rules)
    assert not ran(place), run.told
    assert not reaches_evil(place), run.told


def reaches_evil(place: Arena) -> bool:
    """Whether what was to be pushed arrived."""
    found = subprocess.run(
        ["git", "-C", str(place.workspace / "evil.git"), "for-each-ref"],
        env={"PATH": "/usr/bin:/bin", "GIT_CONFIG_COUNT": "1",
             "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"},
        capture_output=True,
    )  # fmt: skip
    return bool(found.stdout.strip())


def pushed(origin: Path, user: str) -> int:
    """Commits of main that the real remote has."""
    rights = AS_NOBODY if user == "nobody" else {}
    done = subprocess.run(
        ["git", "-C", str(origin), "rev-list", "--count", "main"], capture_output=True, **rights
    )
    return int(done.stdout)


@every_side
def test_a_push_to_a_remote_of_before_runs_by_its_rule(arena, layer, user):
    """Else the tests above would pass with a policy that refuses everything."""
    place = arena(layer, user)
    origin = with_origin(place)
    before = pushed(origin, user)
    call = bash("git push origin main", unsandboxed=True, reason="x")
    run = place.does([call], "--allow",
                    "unsandboxed(git push origin main)")  # fmt: skip
    assert run.exit_code == 0, run.told
    assert pushed(origin, user) == before + 1


@pytest.mark.parametrize("layer", ["landlock"])
def test_where_an_earlier_process_of_the_session_would_push_to_is_put_back(arena, layer):
    place = arena(layer)
    origin = with_origin(place)
    values = {"work": place.workspace, "outside": place.outside, "origin": origin}
    make = MAKE_EVIL.format(**values) + "git config remote.origin.url ./evil.git"
    place.does([bash(make)])
    push = bash("git push origin HEAD", unsandboxed=True, reason="x")
    with ModelServer([Reply("", [push]), Reply("Done.")]) as server:
        flags = ("--set", f"sandbox.layer={layer}", "--allow", "unsandboxed(git push origin HEAD)")
        process = place.agent.use(server).start("resume", "--last", "push", *flags)
        process.communicate(timeout=LIMIT_S)
    assert not ran(place)
    told = str(server.requests[-1].body["messages"])
    assert "remote.origin.url" in told
    assert str(origin) in git(place.workspace, "config", "remote.origin.url")
