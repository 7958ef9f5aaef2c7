"""One session of a task, from its first run to its end, with faults on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from tests.conftest import LIMIT_S, MODELS, Agent
from tests.faults import workload
from tests.faults.checks import Ledger
from tests.faults.kept import Kept, KeptInDatabase
from tests.server import Entry, Hang, ModelServer, Recorded, Reply

INJECT = Path(__file__).parent / "inject"
_MOST_RUNS = 12


@dataclass(frozen=True)
class Fault:
    """`kind` as in `inject/sitecustomize.py`, at write boundary `at`; `shift_s` is for clocks.
    `unnamed` says whether the file system has unnamed files."""

    kind: str
    at: int
    shift_s: float = 0
    unnamed: bool = True


@dataclass(frozen=True)
class Strike:
    """SIGKILL while the command that logs `mark` runs, right after it did."""

    mark: str


@dataclass(frozen=True)
class InReply:
    """SIGKILL, or `number`, when `after` events of the reply to request `step` were sent."""

    step: int
    after: int
    number: int = signal.SIGKILL


@dataclass(frozen=True)
class Delay:
    """SIGKILL after so many seconds; for campaigns by hand, as it depends on the machine."""

    seconds: float


@dataclass(frozen=True)
class Meanwhile:
    """Before the reply to request `step` is given `begin` is called, and `end` after the process
    has ended, before anybody looks."""

    step: int
    begin: Callable[[], None]
    end: Callable[[], None]


Disturbance = Fault | Strike | InReply | Delay | Meanwhile


@dataclass(frozen=True)
class Ended:
    """How one process ended; `boundaries` are the writes that it came to."""

    code: int
    out: str
    err: str
    boundaries: tuple[str, ...]

    @property
    def last_words(self) -> str:
        return "\n".join(self.err.strip().splitlines()[-3:])


class Trial:
    """A context manager. `problems` says what did not hold, and in which run."""

    def __init__(
        self,
        folder: Path,
        api: str = "chat_completions",
        steps: Sequence[Reply] = workload.SHORT,
        store: str = "files",
    ) -> None:
        self._steps = steps
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._in_reply: InReply | None = None
        self._meanwhile: Meanwhile | None = None
        self.server = ModelServer(play=self._play)
        (folder / "home").mkdir(parents=True)
        workload.prepare(folder / "work")
        self.agent = Agent(folder / "home", folder / "work").use(self.server, MODELS[api])
        self.store = store
        kept: Kept | None = None
        if store != "files":
            self.agent.env["AGENT_STORE"] = store
            file = self.agent.home / "state" / store.removeprefix("sqlite:///")
            kept = KeptInDatabase(file if store.startswith("sqlite") else store)
        self.ledger = Ledger(folder / "work", kept)
        self.runs: list[Ended] = []
        self.problems: list[str] = []

    def __enter__(self) -> Trial:
        self.server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.server.close()

    @property
    def sessions(self) -> Path:
        return self.agent.home / "state" / "sessions"

    @property
    def session(self) -> Path | None:
        """The session that was given the task, if one was."""
        return self.ledger.with_task(self.agent.sessions)

    @property
    def over(self) -> bool:
        """Whether the last process said that the task is done, or, where one was killed between
        its last reply and its end, that nothing is left to do."""
        if not self.runs:
            return False
        last = self.runs[-1]
        left_nothing = last.code == 2 and "nothing left to do" in last.err
        return last.code == 0 or (left_nothing and self.ledger.is_answered(self.session))

    def go(self, disturbance: Disturbance | None = None) -> Ended:
        """Start the task, or go on with it, and check what is left behind."""
        known = self.session
        arguments = ["resume", known.name] if known else ["run", workload.TASK]
        trace = self._folder / f"trace-{len(self.runs)}"
        arguments += ["--yolo", "--set", "llm.retry_base_s=0"]
        if isinstance(disturbance, Strike):
            # From within the sandbox a command can't reach the process that it is to kill.
            arguments.append("--no-sandbox")
        ended = self._run(arguments, disturbance, trace)
        self.runs.append(ended)
        if isinstance(disturbance, Meanwhile):
            disturbance.end()
        for problem in self.ledger.look(self.agent.sessions, ended.code):
            self._note(f"{problem} [{disturbance}]")
        if "Traceback" in ended.err or (ended.code in (1, 70) and not _refused(disturbance)):
            self._note(f"exit {ended.code}: {ended.last_words}")
        return ended

    def finish(self) -> Ended:
        """Go on undisturbed until the task is done, and check the whole."""
        while not self.over and len(self.runs) < _MOST_RUNS:
            self.go()
        ended = self.runs[-1]
        if not self.over:
            self._note(f"never done: exit {ended.code}: {ended.last_words}")
        elif self.session is not None:
            for problem in self.ledger.look_at_end(self.session):
                self._note(problem)
        self.problems += self.server.violations + self.server.prefix_breaks()
        return ended

    def _note(self, problem: str) -> None:
        self.problems.append(f"run {len(self.runs)}: {problem}")

    def _run(self, arguments: list[str], disturbance: Disturbance | None, trace: Path) -> Ended:
        self._in_reply = disturbance if isinstance(disturbance, InReply) else None
        self._meanwhile = disturbance if isinstance(disturbance, Meanwhile) else None
        for name in ("AGENT_FAULT", "PYTHONPATH"):
            self.agent.env.pop(name, None)
        if isinstance(disturbance, Strike):
            (self.agent.workspace / "strikes" / disturbance.mark).touch()
        if isinstance(disturbance, Fault):
            if disturbance.kind == "clock":
                # Modules that are loaded have taken the real one.
                self.agent.env["PYTHONPATH"] = str(INJECT)
            self.agent.env["AGENT_FAULT"] = json.dumps(
                {
                    "root": str(self.sessions),
                    "trace": str(trace),
                    "database": "AGENT_STORE" in self.agent.env,
                    **asdict(disturbance),
                }
            )
        limit_s = disturbance.seconds if isinstance(disturbance, Delay) else LIMIT_S
        # Whoever waits for a process to be stopped is its parent.
        self.agent.preloaded = not isinstance(disturbance, InReply)
        self._process = self.agent.start(*arguments, start_new_session=True)
        try:
            out, err = self._process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, err = self._process.communicate()
            if not isinstance(disturbance, Delay):
                self._note(f"hangs: {err.decode()}")
        boundaries = tuple(trace.read_text().splitlines()) if trace.exists() else ()
        return Ended(self._process.returncode, out.decode(), err.decode(), boundaries)

    def _play(self, request: Recorded) -> Entry:
        step = workload.step_of(request)
        reply = self._steps[step]
        if self._meanwhile is not None and self._meanwhile.step == step:
            self._meanwhile.begin()
        moment = self._in_reply
        if moment is None or moment.step != step or self._process is None:
            return reply
        self._in_reply = None
        return Hang(_Signal(self._process, moment.number), reply, moment.after)


class _Signal(threading.Event):
    """Sends a signal at the moment at which the server begins to wait for it, after which the
    connection is cut. A process that was stopped is let go on once it is."""

    def __init__(self, process: subprocess.Popen[bytes], number: int) -> None:
        super().__init__()
        self._process = process
        self._number = number

    def wait(self, timeout: float | None = None) -> bool:
        os.kill(self._process.pid, self._number)
        if self._number == signal.SIGSTOP:
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)
            connection = threading.current_thread()
            threading.Thread(target=self._continue_after, args=(connection,)).start()
        self.set()
        return True

    def _continue_after(self, connection: threading.Thread) -> None:
        connection.join()
        self._process.send_signal(signal.SIGCONT)


def _refused(disturbance: Disturbance | None) -> bool:
    by_disk = isinstance(disturbance, Fault) and disturbance.kind.startswith("E")
    return by_disk or isinstance(disturbance, Meanwhile)
