"""Plays the fault plan: one task against one fault, in this process or by the `agent` binary."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from socket import socket

from agentcli.agent.loop import run_turn
from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.configuration.config import load_settings
from agentcli.events import Event, Progress
from agentcli.llm.provider import built_in, known_providers
from tests.server import Entry, ModelServer, Recorded, Reply, Step
from tests.server.plan import DONE, KEY, PLAN, RETRIES, Completes, Fails, Fault, Scene
from tests.server.plan.fault import MESSAGES

PLAYED = [name for name, each in known_providers().items() if each.protocol != "scripted"]
"""The providers that faults are played on."""
MODELS = {"azure": "gpt-5.5", "openai-chat": "gpt-5.5"}
"""What is asked of those that have no model of their own."""
_WINDOW = 200_000
"""In tokens: nothing is condensed unless a server says that it is too long."""
CASES = {
    f"{name}-{provider}-{'streamed' if streamed else 'whole'}": (name, provider, streamed)
    for name, fault in PLAN.items()
    for provider in PLAYED
    for streamed in fault.streamed
    if built_in(provider).protocol in fault.apis and provider in (fault.providers or PLAYED)
}


@dataclass
class Outcome:
    """What came of a run; `told` is everything a person could have read."""

    reason: str
    exit_code: int
    answer: str
    told: str


@dataclass
class Stage:
    """A server that commits one fault, and one beside it that nothing may be sent to."""

    name: str
    fault: Fault
    server: ModelServer
    elsewhere: ModelServer
    key_env: str
    settings: dict[str, object] = field(default_factory=dict)

    def environment(self, home: Path) -> dict[str, str]:
        return {"AGENT_HOME": str(home), "XDG_CONFIG_HOME": str(home), self.key_env: KEY}

    def check(self, outcome: Outcome, workspace: Path, session: Path) -> None:
        """The outcome is the expected one, and nothing happened that never may."""
        expected, ran = self.fault.expected, workspace / "ran"
        asked = len(self.server.requests)
        assert asked <= expected.requests, f"{asked} requests; {outcome}"
        if isinstance(expected, Fails):
            assert outcome.reason in expected.reason.split(" or "), outcome
            assert outcome.exit_code == expected.exit_code, outcome
            assert expected.says in outcome.told
            assert asked or expected.reason in ("not_running", "stalled")
        else:
            assert outcome.exit_code == 0, outcome
            assert outcome.answer.strip() == DONE
        assert ran.exists() == (isinstance(expected, Completes) and expected.ran), outcome
        assert self.server.violations == []
        assert self.elsewhere.requests == []
        assert len(self.server.prefix_breaks()) <= self.name.startswith("too long")
        written = b"".join(path.read_bytes() for path in session.rglob("*") if path.is_file())
        bodies = b"".join(request.raw for request in self.server.requests)
        assert KEY.encode() not in written + bodies + outcome.told.encode()
        assert "Traceback" not in outcome.told


@contextmanager
def staged(name: str, provider: str, streamed: bool) -> Iterator[Stage]:
    fault, released = PLAN[name], threading.Event()
    described = built_in(provider)
    api = described.protocol
    with ModelServer() as elsewhere:
        scene = Scene(api, streamed, elsewhere.url, released)
        steps = _steps(fault, scene)
        lock = threading.Lock()

        def play(request: Recorded) -> Entry:
            with lock:
                step = next(steps)
            return step(request) if callable(step) else step

        keys = [KEY] if described.key_env else []
        with ModelServer(play=play, keys=keys, provider=provider) as server, socket() as unheard:
            unheard.bind(("127.0.0.1", 0))
            address = server.messages_url if api == MESSAGES else server.base_url
            if fault.unreachable:
                address = f"http://127.0.0.1:{unheard.getsockname()[1]}"
            model = described.default_model or MODELS.get(provider, "m")
            settings: dict[str, object] = {
                "model.name": f"{provider}/{model}",
                f"providers.{provider}.base_url": address,
                "model.context_tokens": _WINDOW,
                "llm.retries": RETRIES,
                "llm.retry_base_s": 0,
                "llm.first_byte_s": fault.silence_s,
                "llm.gap_s": fault.silence_s,
                "agent.checkpoints": False,
                "sandbox.layer": "none",
                "agent.approval": "yolo",
                f"providers.{provider}.stream": streamed,
            }
            try:
                key_env = described.key_env or "OPENAI_API_KEY"
                yield Stage(name, fault, server, elsewhere, key_env, settings)
            finally:
                released.set()


def _steps(fault: Fault, scene: Scene) -> Iterator[Step]:
    script: Sequence[Step] = fault.script(scene) or [Reply()]
    last = script[-1] if isinstance(fault.expected, Fails) else Reply(DONE)
    return chain(script, repeat(last))


class _Reader:
    """Keeps all that a person could read while the run goes on."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_event(self, event: Event) -> None:
        self.told.append(event.message)

    def on_progress(self, progress: Progress) -> None:
        self.told.append(str(progress))


def play(stage: Stage, folder: Path) -> tuple[Outcome, Path]:
    """One turn of a new session in `folder`; also the session's folder."""
    workspace = folder / "work"
    workspace.mkdir()
    environ = stage.environment(folder / "home")
    settings = load_settings(environ, workspace, stage.settings).values
    reader = _Reader()
    opened = AgentBuilder(settings, environ, workspace).create(lambda session: [reader])
    try:
        opened.say("do it")
        result = run_turn(opened.agent, opened.session)
    finally:
        opened.close()
    ending = result.ending
    shown = [opened.session.redact(text) for text in (ending.content, ending.hint)]
    words = "\n".join([*reader.told, *shown])
    return (
        Outcome(str(ending.reason), result.exit_code, result.answer, words),
        opened.session.folder,
    )
