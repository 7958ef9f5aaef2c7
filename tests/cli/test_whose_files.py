"""Files that somebody else may have written: settings, the folder of sessions, a project's own."""

from __future__ import annotations

import os

import pytest

from tests.server import Reply

NOBODY = 65534


@pytest.fixture
def settings(agent):
    path = agent.home / ".config/agent/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("[security]\nallow = ['bash']\n")
    return path


def refused(agent, path, why: str) -> None:
    done = agent("config", "show")
    assert done.returncode == 3
    assert str(path) in done.stderr
    assert why in done.stderr
    assert "chmod go-w" in done.stderr
    assert agent("run", "x").returncode == 3


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o602])
@pytest.mark.parametrize("linked", [False, True])
def test_settings_that_others_could_have_written_do_not_count(agent, settings, mode, linked):
    real = settings
    if linked:
        real = settings.rename(agent.home / "dotfile")
        settings.symlink_to(real)
    real.chmod(mode)
    refused(agent, settings, "other users may write to it")
    real.chmod(0o644)
    assert agent("config", "show").returncode == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_settings_of_another_user_do_not_count(agent, settings):
    os.chown(settings, NOBODY, NOBODY)
    refused(agent, settings, "it belongs to another user")
    agent.env["AGENT_CONFIG"] = str(settings.rename(agent.home / "named.toml"))
    refused(agent, agent.home / "named.toml", "it belongs to another user")


def test_sessions_may_be_kept_elsewhere_but_not_among_others(agent, serve, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir(mode=0o700)
    (agent.home / "state/sessions").symlink_to(disk)
    agent.use(serve([Reply("Done.")] * 2))
    assert agent("run", "x").returncode == 0
    assert len(list(disk.iterdir())) == 1
    disk.chmod(0o777)
    done = agent("run", "x")
    assert done.returncode == 1
    assert f"sessions can't be kept in {disk}" in done.stderr
    disk.chmod(0o700)
    if os.getuid() == 0:
        os.chown(disk, NOBODY, NOBODY)
        assert agent("run", "x").returncode == 1
    assert len(list(disk.iterdir())) == 1


FAULTS = {
    "rule": ("[security]\ndeny = ['bash(ls; rm)', 'bash(touch:*)', 'nonsense(']\n", "2 left out"),
    "question": ("[security]\nask = ['bash(']\n", "1 left out"),
    "kind": ("[security]\ndeny = 'bash'\n", "its security.deny takes no effect"),
    "key": ("[security]\ndenny = []\n", "there is no setting 'security.denny'"),
    "section": ("nothing = 1\n", "there is no setting 'nothing'"),
    "syntax": ("[security\n", "not valid TOML"),
    "bytes": ("\udcff", "not valid TOML"),
    "folder": (None, "is not a file"),
    "pipe": (os.mkfifo, "is not a file"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_mistake_in_a_folder_that_is_not_trusted_stops_a_run(agent, serve, fault):
    content, told = FAULTS[fault]
    path = agent.workspace / ".agent/config.toml"
    path.parent.mkdir()
    if content is None:
        path.mkdir()
    elif callable(content):
        content(path)
    else:
        path.write_text(content, errors="surrogateescape")
    server = serve([Reply("Done.")])
    done = agent.use(server)("run", "x")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Done.\n"
    [line] = [line for line in done.stderr.splitlines() if str(path.parent) in line]
    assert told in line
    shown = agent("config", "show").stdout
    assert ('security.deny = ["bash(touch:*)"]' in shown) is (fault == "rule")
