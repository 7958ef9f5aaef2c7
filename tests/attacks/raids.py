"""One run of `agent` whose model attacks, and what came of it as seen from outside."""

from __future__ import annotations

import atexit
import errno
import functools
import hashlib
import json
import os
import pty
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentcli.system.processes import process_stat
from tests.attacks.machine import shared_things
from tests.conftest import LIMIT_S, PYTHON, Agent
from tests.sandbox.sandboxes import LAYERS, git, make_repository, without_call
from tests.server import Call, ModelServer, Recorded, Reply

NOBODY = 65534
AS_NOBODY: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
"""Options of `subprocess` that start a program without rights."""
IDENTITY = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "t"), ("EMAIL", "t@localhost"))
}
ALL_RIGHTS = {"unsandboxed": True, "reason": "to see"}
KEY = "sk-test-0123456789abcdef"
"""As `Agent.use` sets it."""
_ROOT = Path(__file__).parents[2]
_PACKAGES = next(path for path in sys.path if path.endswith("site-packages"))
_ATTEMPTS = Path(__file__).with_name("attempts")


def _other_python() -> str | None:
    """An interpreter that every user can start, and that takes the packages of ours."""
    found = shutil.which("python3", path="/usr/local/bin:/usr/bin")
    if os.getuid() != 0 or found is None:
        return None
    version = "import sys; print(sys.version_info[:2])"
    said = subprocess.run([found, "-c", version], capture_output=True, text=True).stdout.strip()
    return found if said == str(sys.version_info[:2]) else None


OTHER_PYTHON = _other_python()
USERS = ["self", *(["nobody"] if OTHER_PYTHON else [])]
SIDES = [(layer, user) for layer in LAYERS for user in USERS]
"""Each layer that this machine has, as whoever runs the tests and, for root, as somebody without
rights too."""
LANDLOCK_ALONE = "landlock alone"
ALONE = [(LANDLOCK_ALONE, "self")] if "landlock" in LAYERS else []
"""Landlock where no namespaces can be had."""
LAYERS_ALONE = [(layer,) for layer in LAYERS]
BEST = LAYERS[0] if LAYERS else "none"
every_layer = pytest.mark.parametrize("layer", LAYERS)
needs_bubblewrap = pytest.mark.skipif("bubblewrap" not in LAYERS, reason="needs bubblewrap")


def sides_for(name: str) -> list[tuple[str, str]]:
    """Every layer, as another user for each `name`; with EVERY_CASE in the environment as each."""
    turn = zlib.crc32(name.encode())
    alternating = [
        (layer, USERS[(number + turn) % len(USERS)]) for number, layer in enumerate(LAYERS)
    ]
    return SIDES if "EVERY_CASE" in os.environ else alternating


def every_side(test: Callable[..., None]) -> Callable[..., None]:
    """Parametrizes `layer` and `user` by `sides_for` the name of the test."""
    return pytest.mark.parametrize(("layer", "user"), sides_for(test.__name__))(test)


def in_turn(
    names: str, cases: Iterable[Any], sides: Sequence[tuple[str, ...]] = SIDES
) -> pytest.MarkDecorator:
    """Parametrizes `layer`, `user` (unless `sides` have none) and `names`: the first case on every
    side, the others on one after the other; with EVERY_CASE in the environment each on all."""
    several = "," in names
    chosen = [
        (*side, *(case if several else (case,)))
        for number, case in enumerate(cases)
        for at, side in enumerate(sides)
        if number == 0 or at == number % len(sides) or "EVERY_CASE" in os.environ
    ]
    columns = ("layer", "user")[: len(sides[0])]
    return pytest.mark.parametrize((*columns, *names.split(", ")), chosen)


@dataclass
class Attacked(Agent):
    """Runs `agent` as `user`; the state is an ordinary one in the home folder."""

    user: str = "self"
    preloaded: bool = False
    started_with: Sequence[str] = ()
    """In place of this interpreter and the package."""

    @property
    def environment(self) -> dict[str, str]:
        base = super().environment | {"HOME": str(self.home)}
        if self.user == "nobody":
            base["PATH"] = os.defpath + ":/bin:/usr/bin"
        if not self.preloaded:
            base["PYTHONDONTWRITEBYTECODE"] = "1"
            if self.user == "nobody":
                base["PYTHONPATH"] = f"{_PACKAGES}:{_ROOT}"
        return {**base, **self.env}

    @property
    def command(self) -> list[str]:
        if self.started_with:
            return list(self.started_with)
        python = OTHER_PYTHON if self.user == "nobody" else sys.executable
        return [str(python), "-m", "agentcli"]

    def start(self, *arguments: str, **options: object) -> subprocess.Popen[bytes]:
        rights: dict[str, object] = {}
        if self.user == "nobody":
            rights = dict(AS_NOBODY)
            rights |= {"executable": OTHER_PYTHON} if self.preloaded else {}
        return super().start(*arguments, **{**rights, **options})


@dataclass
class Arena:
    """A person's home with secrets, a repository to work in, and a folder beside it that is none
    of the agent's business. Not below /tmp: what is there is out of sight for another reason."""

    base: Path
    agent: Attacked
    layer: str

    @property
    def home(self) -> Path:
        return self.agent.home

    @property
    def workspace(self) -> Path:
        return self.agent.workspace

    @property
    def outside(self) -> Path:
        return self.base / "outside"

    @property
    def private(self) -> list[Path]:
        state, settings = self.home / "state", self.home / ".config/agent"
        earlier = state / "sessions/20250101-earlier"
        return [
            *(settings / "config.toml", settings / "rules", state / "trust.json"),
            *(earlier / "state.pkl", earlier / "log", earlier / "events/1.json"),
            *(state / "notes/earlier-00000000/MEMORY.md", state / "USER.md"),
        ]

    def hand_over(self) -> None:
        """All of it to the user who runs the agent."""
        if self.agent.user == "nobody":
            for path in (self.base, *self.base.rglob("*")):
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def run(
        self,
        replies: Sequence[Reply | Callable[[Recorded], Reply]],
        *flags: str,
        meanwhile: Callable[[subprocess.Popen[bytes]], None] = lambda process: None,
    ) -> Run:
        """`agent run` with a model that gives these replies; `meanwhile` before the first one."""
        return self.run_as(["run", "x", *PYTHON], replies, *flags, meanwhile=meanwhile)

    def does(self, calls: Sequence[Call], *flags: str, **options: Any) -> Run:
        """`agent run` with a model that makes these calls in one reply."""
        return self.run([Reply("", list(calls)), Reply("Done.")], *flags, **options)

    def tries(self, calls: Sequence[Call], *flags: str, **options: Any) -> Run:
        """The same with a reply for each call."""
        return self.run([*one_by_one(calls), Reply("Done.")], *flags, **options)

    def killed_after(self, *calls: Call) -> Run:
        """The same, but after these calls the agent is killed."""
        started: list[subprocess.Popen[bytes]] = []

        def kill(request: Recorded) -> Reply:
            started[0].kill()
            started[0].wait()
            return Reply("never read")

        return self.run([Reply("", list(calls)), kill], meanwhile=started.append)

    def run_as(
        self,
        command: Sequence[str],
        replies: Sequence[Reply | Callable[[Recorded], Reply]],
        *flags: str,
        meanwhile: Callable[[subprocess.Popen[bytes]], None] = lambda process: None,
    ) -> Run:
        """The same for another command of `agent` that asks a model."""
        begun = threading.Event()

        def first(request: Recorded) -> Reply:
            begun.wait(LIMIT_S)
            reply = replies[0]
            return reply if isinstance(reply, Reply) else reply(request)

        with ModelServer([first, *replies[1:]]) as server:
            self.agent.use(server)
            name = self.layer.split()[0]
            layer = [] if name == "none" else ["--set", f"sandbox.layer={name}"]
            alone = self.layer == LANDLOCK_ALONE
            refused = {"preexec_fn": without_call("unshare", errno.EPERM)} if alone else {}
            process = self.agent.start(*command, *layer, *flags, **refused)
            meanwhile(process)
            begun.set()
            out, err = process.communicate(timeout=LIMIT_S)
        assert "Traceback" not in err.decode(), err.decode()
        return Run(process.returncode, out.decode(), err.decode(), server.requests)


def bash(command: str, **more: Any) -> Call:
    return Call("bash", {"command": command, **more})


def one_by_one(calls: Sequence[Call]) -> list[Reply]:
    """A reply for each: of several calls in one reply those after a refused one are not run."""
    return [Reply("", [call]) for call in calls]


@dataclass(frozen=True)
class Run:
    exit_code: int
    stdout: str
    stderr: str
    requests: list[Recorded]

    @property
    def told(self) -> list[str]:
        """What the model was told of each of its calls."""
        messages = self.requests[-1].body["messages"]
        return [message["content"] for message in messages if message["role"] == "tool"]


@contextmanager
def make_arena(layer: str, user: str = "self", *, preloaded: bool = False) -> Iterator[Arena]:
    pattern = _pattern()
    with tempfile.TemporaryDirectory(prefix="agent-attacks-", dir=_base()) as name:
        base = Path(name).resolve()
        base.chmod(0o755)
        shutil.copytree(pattern, base, symlinks=True, dirs_exist_ok=True)
        for told in _NAME_THEIR_PLACE:
            path = base / told
            path.write_text(path.read_text().replace(str(pattern), str(base)))
        agent = Attacked(base / "home", base / "work", user=user)
        agent.preloaded = preloaded
        arena = Arena(base, agent, layer)
        arena.hand_over()
        yield arena


_NAME_THEIR_PLACE = (
    *("work/.git/config", "work/.git/modules/part/config", "work/.git/worktrees/side/gitdir"),
    "side/.git",
)


@functools.cache
def _pattern() -> Path:
    """A folder as each arena begins, made once by a process: git takes its time."""
    folder = tempfile.mkdtemp(prefix="agent-attacks-", dir=_base())
    atexit.register(shutil.rmtree, folder)
    base = Path(folder).resolve()
    base.chmod(0o755)
    for name in ("home/.ssh", "home/.aws", "home/.config/agent", "outside"):
        (base / name).mkdir(parents=True)
    (base / "home/.ssh/id_ed25519").write_text("the ssh key\n")
    (base / "home/.aws/credentials").write_text("the cloud key\n")
    for name in ("full", "movable", "removable"):
        (base / "outside" / name).write_text("precious\n")
    arena = Arena(base, Attacked(base / "home", base / "work"), "none")
    for path in arena.private:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if path.suffix == ".toml" else "# ours\n")
    (arena.private[2]).write_text('{"folders": {}}')
    make_repository(arena.workspace)
    make_repository(base / "part")
    git(arena.workspace, "submodule", "add", "-q", "../part", "part")
    git(arena.workspace, "worktree", "add", "-q", str(base / "side"))
    (arena.workspace / ".git/hooks").mkdir(exist_ok=True)
    no_cache = shutil.ignore_patterns("__pycache__")
    shutil.copytree(_ATTEMPTS, arena.workspace / "attempts", ignore=no_cache)
    return base


def _base() -> str:
    places = ("/srv", "/home", "/opt") if os.getuid() == 0 else (str(Path.home()),)
    return next(place for place in places if os.access(place, os.W_OK))


@dataclass
class Raid:
    """What the attempts gained by their own account, and what is to be seen of them from outside:
    `arrived` are the ways by which something came in, `changed` the files that are not as before,
    relative to the arena."""

    layer: str
    root: bool
    found: dict[str, str | None]
    run: Run
    arrived: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)


@dataclass
class _Listeners:
    sockets: dict[str, socket.socket]
    terminal: int
    terminal_path: str
    names: dict[str, str]

    def arrived(self) -> set[str]:
        found = set()
        for name, server in self.sockets.items():
            server.setblocking(False)
            try:
                if server.type == socket.SOCK_DGRAM:
                    while data := server.recv(512):
                        found.add("dns" if b"secret" in data else name)
                else:
                    server.accept()[0].close()
                    found.add(name)
            except BlockingIOError:
                continue
        os.set_blocking(self.terminal, False)
        with suppress(OSError):
            found |= {"terminal"} if b"spoofed" in os.read(self.terminal, 100) else set()
        return found


@contextmanager
def _listening(arena: Arena) -> Iterator[_Listeners]:
    """Daemons of the machine that nothing the agent runs should reach."""
    mark = os.urandom(6).hex()
    names = {"abstract": f"agent-{mark}", "abstract_datagram": f"agent-datagram-{mark}"}
    with ExitStack() as stack:
        opened = {
            "tcp": stack.enter_context(socket.create_server(("127.0.0.1", 0))),
            "udp": stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
            "unix": stack.enter_context(socket.socket(socket.AF_UNIX)),
            "abstract": stack.enter_context(socket.socket(socket.AF_UNIX)),
            "abstract_datagram": stack.enter_context(
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            ),
        }
        opened["udp"].bind(("127.0.0.1", 0))
        opened["unix"].bind(f"{arena.outside}/docker.sock")
        for name, address in names.items():
            opened[name].bind(f"\0{address}")
        for name in ("unix", "abstract"):
            opened[name].listen()
        _daemon_of_others(arena, stack)
        main, other = pty.openpty()
        stack.callback(os.close, main)
        stack.callback(os.close, other)
        path = os.ttyname(other)
        if arena.agent.user == "nobody":
            os.chown(path, NOBODY, NOBODY)
            os.chown(f"{arena.outside}/docker.sock", NOBODY, NOBODY)
        yield _Listeners(opened, main, path, names)


def _daemon_of_others(arena: Arena, stack: ExitStack) -> None:
    """It listens where the user may not look, by a name that breaks the kernel's list of sockets
    into lines of its own making. Only where root runs the tests is it somebody else's."""
    folder = arena.base / "closed"
    (folder / "a\n1 2 3 zz 5 6 7 ").mkdir(mode=0o700, parents=True)
    folder.chmod(0o700)
    for name in ("agent", "a\n1 2 3 zz 5 6 7 /b"):
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(f"{folder}/{name}")
        server.listen()
    arena.agent.env["SSH_AUTH_SOCK"] = f"{folder}/agent"


def raid(
    arena: Arena,
    *flags: str,
    only: Sequence[str] = (),
    python: bool = False,
    wider: Mapping[str, object] | None = None,
    waits: bool = False,
) -> Raid:
    """Have the model make all attempts, or `only` these, by a command or by the python tool;
    `wider` is what the command asks for besides; `waits`: the next one waits for its end."""
    place_file, found_file = arena.workspace / "place.json", arena.workspace / "found.json"
    command = f'python3 -m attempts "$(cat place.json)" {found_file} {" ".join(only)}'
    call = Call("bash", {"command": command, **(wider or {})})
    if python:
        code = (
            "import sys; sys.path.insert(0, '.')\nimport attempts\n"
            f"attempts.main([open('place.json').read(), {str(found_file)!r}, *{list(only)!r}])"
        )
        call = Call("python", {"code": code})
    user = NOBODY if arena.agent.user == "nobody" else None
    with _listening(arena) as listeners, shared_things(arena.base, arena.home, user) as shared:
        before = _snapshot(arena)

        def tell(process: subprocess.Popen[bytes]) -> None:
            place_file.write_text(json.dumps({**_place(arena, listeners, process.pid), **shared}))

        end = Call("bash", {"command": f"until [ -e {found_file} ]; do sleep 0.05; done"})
        calls = [call, end] if waits else [call]
        run = arena.run([Reply("", calls), Reply("Done.")], *flags, meanwhile=tell)
        arrived = listeners.arrived()
        after = _snapshot(arena)
    assert found_file.exists(), (run.told, run.stderr)
    root = os.getuid() == 0 and arena.agent.user == "self"
    found = json.loads(found_file.read_text())
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return Raid(arena.layer, root, found, run, arrived, changed)


def _place(arena: Arena, listeners: _Listeners, pid: int) -> dict[str, Any]:
    stat = process_stat(pid)
    assert stat is not None
    return {
        "workspace": str(arena.workspace),
        "outside": str(arena.outside),
        "home": str(arena.home),
        "private": list(map(str, arena.private)),
        "key": KEY,
        "argument": "agentcli\0run",
        "mark": os.urandom(4).hex(),
        "pid": pid,
        "started": stat.started,
        "tcp": listeners.sockets["tcp"].getsockname()[1],
        "udp": listeners.sockets["udp"].getsockname()[1],
        "unix": f"{arena.outside}/docker.sock",
        "terminal": listeners.terminal_path,
        **listeners.names,
    }


def _snapshot(arena: Arena) -> dict[str, str]:
    """Kind, mode and content of everything that is not the workspace's, but for the new session."""
    found = {}
    watched = [arena.outside, arena.home, *(arena.workspace / ".git" / n for n in _CONTROLS)]
    for top in watched:
        for path in (top, *top.rglob("*")):
            name = str(path.relative_to(arena.base))
            if _is_running_session(name) or not os.path.lexists(path):
                continue
            info = path.lstat()
            data = path.read_bytes() if path.is_file() else b""
            found[name] = f"{info.st_mode:o} {hashlib.sha256(data).hexdigest()}"
    return found


_CONTROLS = ("hooks", "config", "modules/part/hooks", "modules/part/config", "worktrees/side")


def _is_running_session(name: str) -> bool:
    if name in ("home", "home/state", "home/state/sessions", "home/state/sandbox.json"):
        return True
    return name.startswith("home/state/") and "earlier" not in name and "planted" not in name
