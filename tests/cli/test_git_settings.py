"""What a run writes of git's settings where the sandbox keeps commands from writing the file."""

from __future__ import annotations

from tests.cli.test_workspace_warnings import bash, needs_bubblewrap, outputs
from tests.conftest import git
from tests.server import Reply


@needs_bubblewrap
def test_a_new_branch_is_tracked_and_a_hook_is_not_named(agent, serve, repository):
    git(repository, "branch", "-M", "main")
    before = (repository / ".git/config").read_bytes()
    server = serve(
        [
            bash("git switch -qc topic --track main && git branch -m renamed"),
            bash("git config core.hooksPath hooks; git config user.name me"),
            bash("exec 3<.git/config; git config user.name you; exec 3<&-"),
            Reply("Done."),
        ]
    )
    agent.use(server)
    done = agent("run", "--set", "sandbox.layer=bubblewrap", "x")
    assert done.returncode == 0, done.stderr
    assert git(repository, "rev-parse", "--abbrev-ref", "renamed@{u}").strip() == "main"
    assert git(repository, "config", "--local", "user.name").strip() == "me"
    assert "hooks" not in (repository / ".git/config").read_text()
    _, refused, busy = outputs(agent)
    assert "could not write config file .git/config: Operation not permitted" in refused
    assert 'not written to git\'s settings: "core.hookspath"; the sandbox lets in only' in refused
    assert "Device or resource busy" in busy
    for _ in range(2):
        undone = agent("undo")
        assert undone.returncode == 0, undone.stderr
    assert (repository / ".git/config").read_bytes() == before
