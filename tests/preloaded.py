"""`agent` as a fork of a process that has its modules loaded: the imports are most of a short run.

From `main` on it is the program itself, in a process of its own with the environment, folder and
streams it was started with. What the interpreter takes from its environment before the first line
is not renewed, and `/proc` shows the environment of whoever loaded the modules: tests of those run
`python -m agentcli`.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import select
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import pexpect
from ptyprocess import PtyProcess
from pydantic import BaseModel

_LIBRARIES = (
    *("openai", "openai.resources.responses", "openai.resources.chat"),
    *("anthropic", "anthropic.resources.messages", "httpcore2", "truststore"),
    *("genai_prices.data", "genai_prices.data_units", "jinja2", "yaml", "pexpect"),
    *("prompt_toolkit.shortcuts", "rich.live", "rich.markdown", "rich.syntax", "rich.table"),
    *("typer.main", "typer.rich_utils", "typer._adapters", "tree_sitter", "tree_sitter_bash"),
)
_READ_AT_START = ("PYTHON", "LD_", "LC_", "TZ", "MALLOC_", "SSL_")
SETTINGS = {
    *("stdin", "stdout", "stderr", "cwd", "env", "start_new_session"),
    *("executable", "user", "group", "extra_groups"),
}
"""What can be set for a process."""
PROGRAM = [sys.executable, "-m", "agentcli"]
_HEAD = struct.Struct("=I")
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex
_ATTEMPTS = 1_000
_ROOT = str(Path(__file__).parents[1])


def serves(environ: Mapping[str, str]) -> bool:
    """Whether nothing in `environ` is for the interpreter's own start."""
    return environ.get("LANG") == "C.UTF-8" and not any(
        name.startswith(_READ_AT_START) for name in environ
    )


class Preloaded(subprocess.Popen[bytes]):
    """Started with the arguments of `agent` only; takes of `Popen` what `SETTINGS` says.
    `executable` is the interpreter."""

    _loaders: ClassVar[dict[int | None, socket.socket]] = {}
    """By user."""
    _asking: ClassVar = threading.Lock()
    """A loader is asked by one thread at a time."""
    _status = -1

    def _execute_child(  # type: ignore[override]
        self,
        args: list[str],
        executable: str | None,
        preexec_fn: None,
        close_fds: bool,
        pass_fds: tuple[int, ...],
        cwd: str | os.PathLike[str],
        env: dict[str, str],
        startupinfo: None,
        creationflags: int,
        shell: bool,
        *settings: Any,
    ) -> None:
        *ends, _restore_signals, gid, gids, uid, _umask, own_session, _group = settings
        read, _, _, written, _, errors = ends
        streams = [end if end >= 0 else n for n, end in enumerate((read, written, errors))]
        self._status, ended = os.pipe()
        request = json.dumps([args, os.fspath(cwd), env, own_session]).encode()
        rights = {"user": uid, "group": gid, "extra_groups": gids}
        with self._asking:
            if uid not in self._loaders:
                self._loaders[uid] = _connect(executable or sys.executable, rights)
            control = self._loaders[uid]
            socket.send_fds(control, [_HEAD.pack(len(request))], [*streams, ended])
            control.sendall(request)
            self.pid = _HEAD.unpack(control.recv(_HEAD.size, socket.MSG_WAITALL))[0]
        os.close(ended)
        self._child_created = True
        self._close_pipe_fds(*ends)

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        status = _HEAD.unpack(os.read(self._status, _HEAD.size))[0]
        os.close(self._status)
        return self.pid, status

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._status >= 0:
            with self._waitpid_lock:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)
        return self.returncode


def spawn(command: Sequence[str], *, env: Mapping[str, str], **options: Any) -> pexpect.spawn[Any]:
    """`command` in a pty, preloaded if it is `agent` and that can be."""
    program, *arguments = command
    preloaded = [*command[:3]] == PROGRAM and serves(env)
    kind = _PreloadedSpawn if preloaded else pexpect.spawn
    return kind(program, arguments, env={"TERM": "xterm-256color", **env}, **options)


class _PreloadedSpawn(pexpect.spawn):  # type: ignore[type-arg]
    def _spawnpty(
        self, args: list[str | bytes], *, dimensions: tuple[int, int] = (24, 80), **options: Any
    ) -> PtyProcess:
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *dimensions, 0, 0))
        program = Preloaded(
            [os.fsdecode(argument) for argument in args[len(PROGRAM) :]],
            **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
            cwd=options["cwd"] or Path.cwd(),
            env=options["env"],
            start_new_session=True,
        )
        os.close(theirs)
        return _PreloadedPty(program, ours)


class _PreloadedPty(PtyProcess):
    """The loader's child, not ours: how it ended is told by `Preloaded`."""

    def __init__(self, program: Preloaded, fd: int) -> None:
        super().__init__(program.pid, fd)
        self._program = program

    def isalive(self) -> bool:
        if not self.terminated:
            # After the end of what it writes its own is near, as with every PtyProcess.
            self.status = self._program.wait() if self.flag_eof else self._program.poll()
            if self.status is None:
                return True
            killed = self.status < 0
            self.exitstatus = None if killed else self.status
            self.signalstatus = -self.status if killed else None
            self.terminated = True
        return False

    def wait(self) -> int | None:
        self._program.wait()
        self.isalive()
        return self.exitstatus


def _connect(interpreter: str, rights: dict[str, Any]) -> socket.socket:
    """To the loader of this run of the tests, which the first of its processes starts."""
    place = Path(tempfile.gettempdir(), f"agent-{_RUN[:16]}-{rights['user'] or os.getuid()}")
    for _ in range(_ATTEMPTS):
        control = socket.socket(socket.AF_UNIX)
        try:
            control.connect(str(place))
        except FileNotFoundError:
            control.close()
            _start_loader(place, interpreter, rights)
        except ConnectionRefusedError:
            # Bound by another just now: it will listen in a moment.
            control.close()
        else:
            return control
    raise RuntimeError(f"the process that has the modules loaded is gone: {place}")


def _start_loader(place: Path, interpreter: str, rights: dict[str, Any]) -> None:
    packages = [path for path in sys.path if path.endswith("site-packages")]
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(str(place))
        except OSError:
            return  # another was first
        atexit.register(place.unlink, missing_ok=True)
        listener.listen()
        subprocess.Popen(
            [interpreter, "-m", "tests.preloaded", str(listener.fileno())],
            pass_fds=[listener.fileno()],
            env={
                "PATH": os.environ["PATH"],
                "LANG": "C.UTF-8",
                "PYTHONPATH": ":".join([_ROOT, *packages]),
            },
            stdin=subprocess.DEVNULL,
            **rights,
        )


def _load() -> None:
    import agentcli

    for module in pkgutil.walk_packages(agentcli.__path__, "agentcli."):
        left_out = ("demo.repository", "batch.ray_driver")
        if not module.name.endswith("__main__") and not any(x in module.name for x in left_out):
            importlib.import_module(module.name)
    for name in _LIBRARIES:
        importlib.import_module(name)
    _build(BaseModel)
    _fill_caches()
    gc.collect()
    gc.freeze()


def _build(model: type[BaseModel]) -> None:
    """What pydantic leaves for when a model of ours is first used."""
    for each in model.__subclasses__():
        if each.__module__.startswith("agentcli."):
            each.model_rebuild()
        _build(each)


def _fill_caches() -> None:
    """What a process of the program would keep of its first session for the next."""
    from agentcli.agent.prompts import PromptFacts, PromptManager
    from agentcli.tools.registry import TOOLS

    PromptManager().system_text(PromptFacts())
    for tool in TOOLS.all().values():
        tool.schema()


def _serve(listener: socket.socket) -> None:
    """Start programs for whoever connects, until all have gone, and tell how each program ended on
    the last descriptor that came with it."""
    controls: list[socket.socket] = []
    running: dict[int, tuple[int, int]] = {}
    """By a descriptor of its process: its pid, and where its end is told."""
    while True:
        for ready in select.select([listener, *controls, *running], [], [])[0]:
            if ready is listener:
                controls.append(listener.accept()[0])
            elif isinstance(ready, int):
                _tell(ready, *running.pop(ready))
            elif not _start(ready, [listener, *controls], running):
                ready.close()
                controls.remove(ready)
                if not controls:
                    return


def _start(
    control: socket.socket, open_here: Sequence[socket.socket], running: dict[int, tuple[int, int]]
) -> bool:
    """What is asked for on `control`; False at its end."""
    head, descriptors, _, _ = socket.recv_fds(control, _HEAD.size, 4)
    if not head:
        return False
    request = json.loads(control.recv(_HEAD.unpack(head)[0], socket.MSG_WAITALL))
    *streams, ended = descriptors
    pid = os.fork()
    if pid == 0:
        ours = [fd for pidfd, (_, told) in running.items() for fd in (pidfd, told)]
        for descriptor in (*(each.detach() for each in open_here), ended, *ours):
            os.close(descriptor)
        _become(streams, *request)
    control.sendall(_HEAD.pack(pid))
    for descriptor in streams:
        os.close(descriptor)
    running[os.pidfd_open(pid)] = pid, ended
    return True


def _tell(pidfd: int, pid: int, ended: int) -> None:
    os.close(pidfd)
    # Whoever wanted to know may be gone.
    with suppress(BrokenPipeError):
        os.write(ended, _HEAD.pack(os.waitpid(pid, 0)[1]))
    os.close(ended)


def _become(
    streams: list[int], args: list[str], cwd: str, env: dict[str, str], own_session: bool
) -> NoReturn:
    if own_session:
        os.setsid()
        if os.isatty(streams[0]):
            fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    for place, descriptor in enumerate(streams):
        os.dup2(descriptor, place)
    for descriptor in set(streams) - {0, 1, 2}:
        os.close(descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = open(  # noqa: SIM115
            number,
            "w" if number else "r",
            encoding="utf-8",
            errors="backslashreplace" if number == 2 else "surrogateescape",
            closefd=False,
        )
        if number:
            stream.reconfigure(line_buffering=number == 2 or stream.isatty())
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = ["agent", *args]
    if "AGENT_FAULT" in env:
        from tests.faults.inject import sitecustomize  # noqa: F401
    sys.path = [path for path in sys.path if path != _ROOT]
    from agentcli.cli.main import main

    main()


if __name__ == "__main__":
    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
