"""What commands get into the settings of the person's repository: what git's daily work needs, and
nothing by which the person's own git would run, read or send something."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.attacks.raids import bash, every_side, one_by_one
from tests.attacks.test_git_daily import failed, run_all
from tests.attacks.test_git_traps import every_layer, needs_bubblewrap, person, trapped
from tests.sandbox.sandboxes import git
from tests.server import Call, Recorded, Reply

__all__ = ["trapped"]

ANYONE = ("-c", "safe.directory=*")
DAILY = """
git switch -qc topic --track main && git rev-parse topic@{u}
git branch other && git config branch.other.rebase true && git branch -D other
git branch -m topic renamed && git rev-parse renamed@{u}
git config --local user.name me && git config user.email me@localhost
git remote add mine https://example.org/mine && git remote -v
git config rerere.enabled true && git config --unset rerere.enabled
git submodule --quiet deinit -f part; git submodule --quiet update --init
git -C part switch -qc topic --track main && git -C part rev-parse topic@{u}
git -C ../side switch -qc there --track main && git -C ../side rev-parse there@{u}
"""


@every_side
def test_what_daily_work_writes_is_there_at_once_and_can_be_undone(arena, layer, user):
    place = arena(layer, user)
    work = place.workspace
    place.agent.env["GIT_CONFIG_GLOBAL"] = "/dev/null"
    git(work, *ANYONE, "commit", "-qm", "with a submodule")
    git(work, *ANYONE, "branch", "-M", "main")
    place.hand_over()
    before = (work / ".git/config").read_bytes()
    # Where further settings would be, nothing could be covered.
    sparse = "git sparse-checkout set --no-cone '/*' && git sparse-checkout disable\n"
    told = run_all(place, DAILY + sparse * (layer == "landlock"))
    assert failed(told) == []
    settings = git(work, *ANYONE, "config", "--local", "--list")
    assert "branch.renamed.merge=refs/heads/main" in settings
    assert "remote.mine.url=https://example.org/mine" in settings
    assert "branch.topic" not in settings
    assert "branch.other" not in settings
    done = place.agent("undo")
    assert done.returncode == 0, done.stderr
    assert (work / ".git/config").read_bytes() == before


FORGE = r"""
import ctypes, os, subprocess, sys, threading
payload = os.path.abspath("payload")
config = sys.argv[1]
lock, libc = config + ".lock", ctypes.CDLL(None)
evil = "[core]\n\tfsmonitor = %s\n" % payload
long = "\tdescription = " + "x" * 1100 + "\n"
FORGED = [
    evil, "\ufeff" + evil, evil.replace("\n", "\r\n"), evil.replace("core", "CoRe"),
    '[branch "x"] [core] fsmonitor = %s\n' % payload,
    '[branch "x"]\n\tmerge = a\\\n[core]\n\tfsmonitor = %s\n' % payload,
    '[branch "x"]\n\tmerge = "a\n[core]\n\tfsmonitor = %s\n' % payload,
    '[branch "x\\"]\n[core]\n\tfsmonitor = %s\n' % payload,
    '[branch "x"]\n\tmerge = "a\\n[core]\\n\\tfsmonitor = %s"\n' % payload,
    '[branch "x"]\n' + long + evil, '[branch "x"]\n' + long,
    "[core]\n\thooksPath = .named\n", "[include]\n\tpath = ../evil.inc\n",
    '[includeIf "gitdir:**"]\n\tpath = ../evil.inc\n',
    '[filter "x"]\n\tclean = %s\n\tprocess = %s\n' % (payload, payload),
    '[diff "x"]\n\ttextconv = %s\n\tcommand = %s\n' % (payload, payload),
    '[url "https://example.net/"]\n\tinsteadOf = https://example.org/\n',
    '[submodule "part"]\n\tupdate = !%s\n' % payload,
    '[submodule "part"]\n\turl = ext::%s\n' % payload,
    '[remote "x"]\n\turl = ext::%s\n' % payload, '[remote "x"]\n\tuploadpack = %s\n' % payload,
    '[remote "x"]\n\turl = ./x\n\tpromisor = true\n[extensions]\n\tpartialClone = x\n',
    '[branch "main"]\n\tremote = ./evil\n', "[extensions]\n\tworktreeConfig = true\n",
    "[core]\n\tworktree = elsewhere\n", "[core]\n\tbare = true\n", "[user]\n\tname = a\0b\n",
    "[user]\n\tname = a", "[user\n",
]
def attempt(how):
    try:
        how()
    except (OSError, subprocess.SubprocessError):
        pass
def put(text, name=lock):
    with open(name, "w", newline="") as file:
        file.write(text)
def run(*command, **env):
    attempt(lambda: os.unlink(lock))
    subprocess.run(command, env={**os.environ, **env})
old = open(config).read()
for text in FORGED:
    for whole in (old + text, text):
        attempt(lambda: (put(whole), os.rename(lock, config)))
attempt(lambda: (put(old.replace("include", "x")), os.rename(lock, config)))
for name, value in [
    ("core.fsmonitor", payload), ("alias.y", "!" + payload), ("core.sshCommand", payload),
    ("branch.x.merge", "a\n[core]\nfsmonitor = " + payload), ("core.pager", payload),
    ("core.attributesFile", "evil"), ("gpg.program", payload), ("credential.helper", "!" + payload),
]:
    folder = os.path.dirname(config)
    for more in ([], ["--file", config], ["--file", config, "--add"]):
        run("git", "--git-dir", folder, "config", *more, name, value)
    run("git", "config", name, value, GIT_CONFIG=config)
    run("git", "config", "--global", name, value, GIT_CONFIG_GLOBAL=config)
# Other things in the place of the lock, and other ways of putting it there.
put(old + evil, "text")
put(old + evil + "#" * 300000, "large")
for make in (os.symlink, os.link):
    for source in ("text", "large"):
        attempt(lambda: os.unlink(lock))
        attempt(lambda: (make(os.path.abspath(source), lock), os.rename(lock, config)))
        attempt(lambda: (make(os.path.abspath(source), lock), os.replace(lock, config)))
attempt(lambda: os.unlink(lock))
attempt(lambda: (os.mkfifo(lock), os.rename(lock, config)))
attempt(lambda: os.unlink(lock))
put(old + evil)
folder = os.open(os.path.dirname(config), os.O_RDONLY)
attempt(lambda: os.rename("config.lock", "config", src_dir_fd=folder, dst_dir_fd=folder))
for flags in (0, 1, 2, 4):
    libc.renameat2(-100, lock.encode(), -100, config.encode(), flags)
attempt(lambda: os.link(lock, config))
attempt(lambda: os.unlink("alias"))
os.symlink(os.path.dirname(config), "alias")
attempt(lambda: os.rename("alias/config.lock", "alias/config"))
attempt(lambda: os.rename("text", config))
# The text, and the place, change while it is looked at.
good = old + '[branch "raced"]\n\tremote = .\n'
os.makedirs("swapped", exist_ok=True)
going = True
def race():
    while going:
        for text in (evil, good):
            attempt(lambda: put(text + " " * (len(good) - len(evil)), lock))
        for target in ("swapped", os.path.dirname(config)):
            attempt(lambda: (os.symlink(target, "y"), os.replace("y", "alias")))
thread = threading.Thread(target=race)
thread.start()
for number in range(100):
    attempt(lambda: os.rename(lock, config))
    attempt(lambda: os.rename("alias/config.lock", "alias/config"))
going = False
thread.join()
# Whoever lets settings in hears nothing but such calls.
import glob, socket
for path in glob.glob(os.path.dirname(os.environ["AGENT_OUT"]) + "/renames"):
    socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(path)
    print("REACHED")
print("ALL TRIED")
"""


@every_side
def test_nothing_else_comes_in_though_the_session_is_killed(trapped, layer, user):
    """By git, by a forged text or a race. Landlock takes it back, so there the session ends well;
    under bubblewrap it never was there."""
    place = trapped(layer, user)
    work = place.workspace
    killed: list[subprocess.Popen[bytes]] = []
    held = layer == "bubblewrap"

    tried: list[str] = []

    def end(request: Recorded) -> Reply:
        tried.extend(str(m["content"]) for m in request.body["messages"] if m["role"] == "tool")
        if held:
            killed[0].kill()
            killed[0].wait()
        return Reply("Done.")

    (work / "forge.py").write_text(FORGE)
    (work / "evil.inc").write_text(f"[core]\n\tfsmonitor = {work}/payload\n")
    part = work / ".git/modules/part/config"
    before = _with_power(work / ".git/config"), _with_power(part)
    stored = git(work, *ANYONE, "config", "--get-regexp", "extensions|bare") if held else ""
    calls = [
        bash(f"python3 forge.py {config} 2>&1 | tail -5") for config in (work / ".git/config", part)
    ]
    place.run([*one_by_one(calls), end], meanwhile=killed.append)
    assert not held or all("ALL TRIED" in told for told in tried)
    assert len(tried) == 2, tried
    assert "REACHED" not in "".join(tried)
    assert (_with_power(work / ".git/config"), _with_power(part)) == before
    if held:
        assert git(work, *ANYONE, "config", "--get-regexp", "extensions|bare") == stored
    assert person(place) == []


def _with_power(config: Path) -> list[str]:
    """The settings of a file that are not of the kinds which may come."""
    listed = git(config.parent, "config", "--file", str(config), "--list", "--no-includes", "-z")
    daily = ("branch.", "user.name\n", "rerere.", "submodule.part.active\n")
    stored = ("extensions.", "core.bare\n", "remote.x.")
    return sorted(each for each in listed.split("\0") if not each.startswith((*daily, *stored)))


@needs_bubblewrap
def test_what_is_not_let_in_is_told_by_git_and_by_us(arena):
    place = arena("bubblewrap")
    calls = [
        bash("git config core.hooksPath x; git config 'includeIf.a]b.path' x"),
        bash("git config core.hooksPath x || true; git sparse-checkout set x"),
        bash("git -C part config core.editor vi"),
        Call("python", {"code": "import os; os.system('git config core.editor vi 2>&1')"}),
        bash("exec 3<.git/config; git config user.name x; git config user.name"),
    ]
    run = place.tries(calls)
    assert "could not write config file .git/config: Operation not permitted" in run.told[0]
    assert (
        'not written to git\'s settings: "core.hookspath", "includeif.a\\u005db.path"'
        in run.told[0]
    )
    assert "unsandboxed: true" in run.told[0]
    assert '"core.hookspath", "extensions.worktreeconfig"' in run.told[1]
    assert all('"core.editor"' in told for told in run.told[2:4])
    assert not any("write only in" in told for told in run.told)
    assert "Device or resource busy" in run.told[4]


@every_layer
def test_the_persons_git_meets_whole_settings_only(arena, layer):
    """While commands change them all the time, and the person too."""
    place = arena(layer)
    work = place.workspace
    turn = "git branch -q b$n; git branch -qm b$n c$n; git config user.name n$n"
    loop = f"for n in $(seq 150); do {turn}; done"
    seen: list[str] = []

    def beside(request: Recorded) -> Reply:
        for _ in range(60):
            done = subprocess.run(
                ["git", "config", "--local", "--list"], cwd=work, capture_output=True, text=True
            )
            seen.append(done.stderr if done.returncode else done.stdout.splitlines()[0])
        return Reply("", [bash("wait; git config user.name")])

    run = place.run([Reply("", [bash(loop, background=True)]), beside, Reply("Done.")])
    assert run.exit_code == 0, run.stderr
    assert set(seen) == {"core.repositoryformatversion=0"}
