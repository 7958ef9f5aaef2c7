"""Attempts to have the file tools read or write what lies outside the session's borders."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from agentcli.errors import ToolError
from agentcli.tools import edit, read, search, write
from agentcli.tools.base import Tool, ToolContext, ToolResult
from agentcli.workspace.opening import open_file
from agentcli.workspace.private import OutputFolder
from agentcli.workspace.scope import AccessScope
from agentcli.workspace.tracking import FileTracker

CANARY = "canary-7f3a: nobody may read this\n"
SWAPS = 2_000


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a workspace, a secret folder, a secret file within the workspace, and files that
    may be read but not written."""
    for folder in (
        "home/.ssh",
        "home/work/.git/hooks",
        "home/work/src",
        "home/state",
        "home/other",
    ):
        (tmp_path / folder).mkdir(parents=True)
    home = tmp_path / "home"
    for secret in (".ssh/id_ed25519", "work/.env", "state/config.toml"):
        (home / secret).write_text(CANARY)
    (home / "other/notes").write_text("notes\n")
    (home / "work/src/a.txt").write_text("inside\n")
    return home


@pytest.fixture
def scope(home: Path) -> AccessScope:
    work = home / "work"
    return AccessScope(
        workspace=work,
        home=home,
        writable=(work,),
        protected=(work / ".git/hooks", work / ".git/config"),
        hidden=(home / ".ssh", work / ".env", home / "state"),
        readable=(home / "state/outputs",),
        agent_files=(home / "state",),
    )


@pytest.fixture
def ctx(home: Path, scope: AccessScope) -> ToolContext:
    nothing = cast(Any, None)
    work = home / "work"
    return ToolContext(
        work, OutputFolder(home), FileTracker(work, scope), shell=nothing, python=nothing
    )


@pytest.fixture
def use(ctx: ToolContext):
    def call(tool: Tool, **arguments: Any) -> ToolResult:
        return tool.run(tool.arguments.model_validate(arguments), ctx)

    return call


def refused(use, tool: Tool, **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        use(tool, **arguments)
    assert "canary" not in str(caught.value)
    return caught.value


def leads_to_the_secret(home: Path) -> list[str]:
    """Every way from the workspace to the private key."""
    work = home / "work"
    (work / "file-link").symlink_to(home / ".ssh/id_ed25519")
    (work / "folder-link").symlink_to(home / ".ssh")
    (work / "chain").symlink_to("folder-link")
    (work / "relative").symlink_to("../.ssh")
    (work / "through-proc").symlink_to(f"/proc/self/root{home}/.ssh")
    return [
        str(home / ".ssh/id_ed25519"),
        "../.ssh/id_ed25519",
        "src/../../.ssh/./id_ed25519",
        "file-link",
        "folder-link/id_ed25519",
        "chain/id_ed25519",
        "relative/id_ed25519",
        "through-proc/id_ed25519",
        f"$'{home}/\\x2essh/id_ed25519'",
        f"/proc/self/root{home}/.ssh/id_ed25519",
        f"/proc/self/cwd/../../../../../../../../../..{home}/.ssh/id_ed25519",
        f"/proc/{os.getpid()}/root{home}/.ssh/id_ed25519",
        f"/proc/thread-self/root{home}/.ssh/id_ed25519",
    ]


# --- reading ------------------------------------------------------------------------------------


def test_no_way_leads_to_a_hidden_file(home, use):
    for path in leads_to_the_secret(home):
        assert refused(use, read.TOOL, path=path).error_id in ("hidden_path", "not_a_file"), path
        folder = path.rpartition("/")[0] or path
        refused(use, edit.EDIT, path=path, old_str="canary", new_str="x")
        refused(use, write.TOOL, path=path, content="x")
        refused(use, search.GREP, path=path, pattern="canary")
        if folder != path:
            refused(use, read.TOOL, path=folder)
            refused(use, search.GLOB, path=folder, pattern="*")
    assert (home / ".ssh/id_ed25519").read_text() == CANARY


def test_a_hidden_file_that_is_not_there_looks_like_one_that_is(home, use):
    there = refused(use, read.TOOL, path=str(home / ".ssh/id_ed25519"))
    absent = refused(use, read.TOOL, path=str(home / ".ssh/nothing"))
    assert str(there).replace("id_ed25519", "nothing") == str(absent)


def test_what_is_hidden_is_neither_listed_nor_found_nor_suggested(home, use):
    leads_to_the_secret(home)
    assert ".env" not in use(read.TOOL, path=".").output
    assert ".ssh" not in use(read.TOOL, path="..").output
    assert ".env" not in use(search.GLOB, pattern="**").output
    assert "id_ed" not in use(search.GLOB, pattern="**", path="..").output
    assert use(search.GREP, pattern="canary").data["matches"] == 0
    assert use(search.GREP, pattern="canary", path="..").data["matches"] == 0
    assert "Similar" not in str(refused(use, read.TOOL, path=".envv"))
    assert "inside" in use(read.TOOL, path="src/a.txt").output


def test_what_is_an_exception_within_hidden_folders_may_be_read(home, use):
    (home / "state/outputs").mkdir()
    (home / "state/outputs/1.txt").write_text("long output\n")
    path = str(home / "state/outputs/1.txt")
    assert "long output" in use(read.TOOL, path=path).output
    refused(use, write.TOOL, path=path, content="x")


def test_another_name_of_a_hidden_file_does_not_help(home, use):
    assert "inside" in use(read.TOOL, path="src/a.txt").output
    os.link(home / ".ssh/id_ed25519", home / "work/hard")
    assert refused(use, read.TOOL, path="hard").error_id == "hidden_path"
    assert use(search.GREP, pattern="nobody").data["matches"] == 0
    os.link(home / "work/src/a.txt", home / "work/src/twin")
    assert "inside" in use(read.TOOL, path="src/twin").output


@pytest.mark.parametrize(
    "path",
    [
        *("/dev/zero", "/dev/stdin", "/dev/fd/0", "/dev/../dev/tty", "/proc/self/environ"),
        *("/proc/self/mem", "/proc/1/environ", "/proc/self/fd/0", "/proc/self/root/etc/passwd"),
        *("/proc/kcore", "/proc/thread-self/environ", "fifo", "link-to-fifo", "link-to-environ"),
    ],
)
def test_devices_pipes_and_processes_are_refused_at_once(home, use, path):
    os.mkfifo(home / "work/fifo")
    (home / "work/link-to-fifo").symlink_to("fifo")
    (home / "work/link-to-environ").symlink_to("/proc/self/environ")
    assert refused(use, read.TOOL, path=path).error_id == "not_a_file"
    refused(use, write.TOOL, path=path, content="x")
    refused(use, search.GREP, path=path, pattern="a")


def test_a_search_is_not_stopped_by_pipes_or_endless_ignore_files(home, use):
    work = home / "work"
    os.mkfifo(work / "fifo")
    os.mkfifo(work / ".ignore")
    (work / ".gitignore").symlink_to("/dev/zero")
    assert use(search.GREP, pattern="inside").data["matches"] == 1


def test_a_pattern_that_would_take_for_ever_is_stopped(home, use, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(search, "MAX_SECONDS", 1)
    (home / "work/a").write_text("a" * 64 + "!\n")
    result = use(search.GREP, pattern="(a|a)+$", path="a")
    assert "stopped after 1 s" in result.output


def test_ripgrep_is_given_nothing_of_ours(home, use, monkeypatch, tmp_path):
    """A stand-in for ripgrep writes down how it was called."""
    programs = tmp_path / "bin"
    programs.mkdir()
    seen = tmp_path / "seen"
    (programs / "rg").write_text(
        f'#!/bin/sh\n{{ printf "%s\\n" "$@"; echo ENV; env; }} > {seen}\n'
        f'printf "%s\\0001:canary\\n" {home}/.ssh/id_ed25519 {home}/work/.env\n'
    )
    (programs / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", "/evil")
    (home / "work/plain").write_text("to be searched\n")
    monkeypatch.setenv("SOME_API_KEY", "canary-in-the-environment")
    assert use(search.GREP, pattern="-fevil").data["matches"] == 0
    arguments, _, environment = seen.read_text().partition("ENV\n")
    words = arguments.splitlines()
    assert "--no-config" in words
    assert words[words.index("--") + 1] == "-fevil"
    assert "canary" not in environment
    assert "RIPGREP" not in environment


# --- writing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        *("../other/notes", "link/notes", "new-link", "../new", "../work-2/x", "/etc/agent-test"),
        *(".git/hooks/pre-commit", ".git/config", "hooks-link/pre-commit", "../state/config.toml"),
        *(".env", "../.ssh/authorized_keys", "../.bashrc"),
    ],
)
def test_nothing_is_written_outside(home, use, ctx, path):
    (home / "work/link").symlink_to(home / "other")
    (home / "work/new-link").symlink_to(home / "other/made-by-a-dangling-link")
    (home / "work/hooks-link").symlink_to(".git/hooks")
    before = snapshot(home)
    refused(use, write.TOOL, path=path, content="x")
    with pytest.raises(ToolError):
        ctx.files.write(ctx.files.locate(path), "x", None)
    assert snapshot(home) == before


def test_writing_replaces_a_hard_link_and_spares_the_file_outside(home, use):
    os.link(home / "other/notes", home / "work/notes")
    use(read.TOOL, path="notes")
    use(edit.EDIT, path="notes", old_str="notes", new_str="changed")
    assert (home / "work/notes").read_text() == "changed\n"
    assert (home / "other/notes").read_text() == "notes\n"


def test_one_approved_path_may_be_written_once(home, use, ctx):
    use(read.TOOL, path="../other/notes")
    with ctx.files.guard.permitting(home / "other/notes"):
        use(write.TOOL, path="../other/notes", content="approved\n")
        refused(use, write.TOOL, path="../other/more", content="x")
    refused(use, write.TOOL, path="../other/notes", content="again\n")
    assert (home / "other/notes").read_text() == "approved\n"
    with ctx.files.guard.permitting(home / "state/config.toml"):
        refused(use, write.TOOL, path="../state/config.toml", content="x")
    assert (home / "state/config.toml").read_text() == CANARY


# --- races --------------------------------------------------------------------------------------


def race(home: Path, attack) -> None:
    """Calls `attack` while `work/swing/deep` is a folder and a link to the secrets by turns, for so
    many turns."""
    work = home / "work"
    (home / ".ssh/deep").mkdir()
    (home / ".ssh/deep/file").write_text(CANARY)
    (work / "real/deep").mkdir(parents=True)
    (work / "real/deep/file").write_text("inside\n")
    (work / "evil").symlink_to(home / ".ssh")
    swing = work / "swing"
    (work / "real").rename(swing)
    over = threading.Event()

    def swap() -> None:
        for _ in range(SWAPS):
            with contextlib.suppress(OSError):
                swing.rename(work / "real")
                (work / "evil").rename(swing)
                swing.rename(work / "evil")
                (work / "real").rename(swing)
        over.set()

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        while not over.is_set():
            attack()
    finally:
        swapper.join()


def snapshot(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path)] = f"-> {path.readlink()}"
        elif path.is_file():
            found[str(path)] = path.read_text()
    return found


def test_a_folder_swapped_right_after_the_judgement_is_not_followed(home):
    """The worst moment, without a race: the path is judged, then the folder becomes a link."""
    folder = home / "work/folder"
    folder.mkdir()
    (folder / "id_ed25519").write_text("inside\n")
    judged = []

    def judge(target: Path) -> None:
        judged.append(target)
        if len(judged) == 1:
            folder.rename(home / "work/aside")
            folder.symlink_to(home / ".ssh")
        elif target.is_relative_to(home / ".ssh"):
            raise ToolError("hidden")

    with pytest.raises(ToolError, match="hidden"):
        open_file(folder / "id_ed25519", judge)
    assert judged == [folder / "id_ed25519", home / ".ssh/id_ed25519"]


def test_reading_while_folders_become_links_never_reads_outside(home, use):
    seen = []

    def attack() -> None:
        for tool, arguments in (
            (read.TOOL, {"path": "swing/deep/file"}),
            (read.TOOL, {"path": "swing"}),
        ):
            with contextlib.suppress(ToolError):
                seen.append(use(tool, **arguments).output)

    race(home, attack)
    assert not [output for output in seen if "canary" in output or "id_ed25519" in output]
    assert any("inside" in output for output in seen)


@pytest.mark.parametrize("tool", ["write", "edit"])
def test_writing_while_folders_become_links_never_writes_outside(home, use, ctx, tool):
    done = []

    def attack() -> None:
        with contextlib.suppress(ToolError):
            if tool == "write":
                done.append(ctx.files.write(home / "work/swing/deep/file", "inside\n", None))
            else:
                call = {"path": "swing/deep/file", "old_str": "inside", "new_str": "inside "}
                done.append(use(edit.EDIT, **call))
                use(edit.EDIT, path="swing/deep/file", undo=True)

    race(home, attack)
    secrets = {path.name: path.read_text() for path in (home / ".ssh").rglob("*") if path.is_file()}
    assert secrets == {"id_ed25519": CANARY, "file": CANARY}
    assert done
