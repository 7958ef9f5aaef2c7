"""Trust goes by content: what was shown is what is trusted, and every change ends it."""

from __future__ import annotations

import json
import os

import pytest

from agentcli.errors import ConfigError
from agentcli.security import trust
from agentcli.security.trust import TrustStore, fingerprint


@pytest.fixture
def project(tmp_path):
    """A folder with settings, a hook script, tool servers and a skill with a script."""
    root = tmp_path / "project"
    for name, text in {
        ".agent/config.toml": "[model]\nname = 'a/b'\n",
        ".agent/hooks/deep/guard.sh": "exit 0\n",
        ".mcp.json": "{}",
        ".claude/skills/x/SKILL.md": "# x",
        ".claude/skills/x/run.py": "print()",
        ".agents/skills/y/SKILL.md": "# only text",
        "src/main.py": "print()",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def store(tmp_path):
    return TrustStore(tmp_path / "state" / "trust.json")


def test_what_would_take_effect_is_found_and_nothing_else(project):
    assert set(fingerprint(project).files) == {
        ".agent/config.toml",
        ".agent/hooks/deep/guard.sh",
        ".mcp.json",
        ".claude/skills/x/SKILL.md",
        ".claude/skills/x/run.py",
    }


def test_a_folder_is_trusted_until_something_changes(project, store):
    assert not store.state_of(fingerprint(project)).trusted
    store.trust(fingerprint(project))
    assert store.state_of(fingerprint(project)).trusted
    (project / "src" / "main.py").write_text("other")
    assert store.state_of(fingerprint(project)).trusted


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (".agent/hooks/deep/guard.sh", lambda path: path.write_text("exit 1\n")),
        (".agent/hooks/deep/guard.sh", lambda path: path.unlink()),
        (".agent/hooks/deep/guard.sh", lambda path: path.chmod(0o755)),
        (".agent/hooks/new.sh", lambda path: path.write_text("")),
        (".agent/config.toml", lambda path: path.write_text("")),
        (".mcp.json", lambda path: path.write_text("[]")),
        (".claude/skills/x/SKILL.md", lambda path: path.write_text("# do evil")),
    ],
)
def test_every_change_is_named_and_ends_the_trust(project, store, name, change):
    before = fingerprint(project)
    store.trust(before)
    change(project / name)
    state = store.state_of(fingerprint(project))
    assert not state.trusted
    assert state.changed == (name,)


def test_the_same_files_elsewhere_are_not_trusted(project, store, tmp_path):
    store.trust(fingerprint(project))
    moved = project.rename(tmp_path / "elsewhere")
    assert not store.state_of(fingerprint(moved)).trusted
    link = tmp_path / "project"
    link.symlink_to(moved)
    assert not store.state_of(fingerprint(link)).trusted


def _linked_file(project):
    (project / ".agent/config.toml").rename(project / "real.toml")
    (project / ".agent/config.toml").symlink_to("../real.toml")


def _linked_folder(project):
    (project / ".agent/hooks").rename(project / "real")
    (project / ".agent/hooks").symlink_to("../real")


def _linked_within(project):
    (project / ".agent/hooks/link.sh").symlink_to("/etc/passwd")


def _pipe(project):
    os.mkfifo(project / ".agent/hooks/pipe")


def _large(project):
    (project / ".agent/hooks/large").write_bytes(bytes(trust.MAX_FILE_BYTES + 1))


def _many(project):
    for number in range(trust.MAX_FILES):
        (project / f".agent/hooks/{number}").touch()


def _heavy(project):
    for number in range(trust.MAX_HOOK_BYTES // trust.MAX_FILE_BYTES + 1):
        (project / f".agent/hooks/{number}").write_bytes(bytes(trust.MAX_FILE_BYTES))


def _deep(project):
    (project / ".agent/hooks" / "/".join(["d"] * 100)).mkdir(parents=True)


@pytest.mark.parametrize(
    "spoil", [_linked_file, _linked_folder, _linked_within, _pipe, _large, _many, _heavy, _deep]
)
def test_what_cannot_be_vouched_for_is_never_trusted(project, store, spoil):
    store.trust(fingerprint(project))
    spoil(project)
    found = fingerprint(project)
    assert found.fault
    assert not store.state_of(found).trusted
    with pytest.raises(ConfigError, match="can't be trusted"):
        store.trust(found)


def test_what_is_loaded_is_what_was_digested(project, store):
    """The file is swapped between the look and the load."""
    found = fingerprint(project)
    (project / ".agent/config.toml").write_text("[model]\nname = 'evil/x'\n")
    assert found.contents[".agent/config.toml"] == b"[model]\nname = 'a/b'\n"
    store.trust(found)
    assert not store.state_of(fingerprint(project)).trusted


def test_what_hooks_run_is_kept_as_it_was_digested(project):
    guard = project / ".agent/hooks/deep/guard.sh"
    guard.chmod(0o755)
    (project / ".agent/hooks/data").write_text("data")
    found = fingerprint(project)
    guard.write_text("exit 1\n")
    assert found.contents[".agent/hooks/deep/guard.sh"] == b"exit 0\n"
    assert found.contents[".agent/hooks/data"] == b"data"
    assert found.runnable == {".agent/hooks/deep/guard.sh"}


def test_never_and_revoke(project, store):
    store.never_ask(project)
    assert store.state_of(fingerprint(project)).never
    assert store.folders() == {}
    store.trust(fingerprint(project))
    assert list(store.folders()) == [str(project)]
    assert store.revoke(project)
    assert not store.revoke(project)
    assert not store.state_of(fingerprint(project)).trusted


def test_the_file_is_for_its_user_alone(project, store, tmp_path):
    path = tmp_path / "state" / "trust.json"
    store.trust(fingerprint(project))
    assert path.stat().st_mode & 0o777 == 0o600
    assert {each.name for each in path.parent.iterdir()} == {"trust.json", "trust.lock"}
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="another user"):
        store.state_of(fingerprint(project))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 1}', '{"version": 2, "folders": {}}', "[" * 100_000,
     '{"version": 1, "folders": {"/": 1}}', '{"version": 1, "folders": {"/": {"files": 3}}}'],
)  # fmt: skip
def test_a_damaged_file_trusts_nothing_and_says_so(project, store, tmp_path, text):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "trust.json").write_text(text)
    with pytest.raises(ConfigError) as caught:
        store.state_of(fingerprint(project))
    assert "delete it" in caught.value.hint


def test_two_at_once_lose_nothing(tmp_path):
    """Each change is made to what is in the file by then."""
    import multiprocessing

    path = tmp_path / "trust.json"
    folders = [tmp_path / f"folder{number}" for number in range(8)]
    for folder in folders:
        folder.mkdir()
        (folder / ".mcp.json").write_text("{}")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_trust, args=(path, folder)) for folder in folders]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert set(json.loads(path.read_text())["folders"]) == {str(folder) for folder in folders}


def _trust(path, folder):
    TrustStore(path).trust(fingerprint(folder))
