"""What the log of a session proves of its work."""

from __future__ import annotations

import pytest

from agentcli.events import Event, ReplyPart
from agentcli.events.actions import CmdRunAction, FileEditAction, RewindAction
from agentcli.events.observations import (
    CheckpointObservation,
    CmdMetadata,
    CmdOutputObservation,
    DelegateObservation,
    ErrorObservation,
    FileEditObservation,
    NullObservation,
    RequirementJudgedObservation,
    SessionStartedObservation,
)
from agentcli.evidence import Evidence
from agentcli.evidence.deferred import DeferredEvidence
from agentcli.evidence.fold import EvidenceFold, child_tests, evidence_of


class Log:
    """A session in /w, step by step. As a real one does, it has a checkpoint before what may change
    files, which tells what did since the one before."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.add(
            SessionStartedObservation(
                version="1", session_id="s", model="m", sandbox="x", workspace="/w", pid=1, host="h"
            )
        )
        self.edits = 0

    def add(self, event: Event) -> int:
        self.events.append(event.model_copy(update={"id": len(self.events)}))
        return len(self.events) - 1

    def edit(self, *paths: str) -> Log:
        for path in paths:
            self.edits += 1
            done = FileEditObservation(path=path, digest=str(self.edits))
            self.add(done.model_copy(update={"cause": self.add(FileEditAction(path=path))}))
        return self

    def run(
        self,
        command: str,
        code: int | None = 0,
        output: str = "",
        *,
        cwd: str = "/w",
        **more: object,
    ) -> Log:
        fields = {"is_input", "background", "job"}
        cause = self.add(
            CmdRunAction(command=command, **{n: v for n, v in more.items() if n in fields})
        )
        told = {name: value for name, value in more.items() if name not in fields}
        data = CmdMetadata(exit_code=code, cwd=cwd, **told)
        self.add(CmdOutputObservation(cause=cause, command=command, content=output, metadata=data))
        return self

    def checkpoint(self, *changed: str, moment: str = "before_step") -> Log:
        self.add(CheckpointObservation(tree="0" * 40, changed=changed, moment=moment))
        return self

    def end(self, *changed: str) -> Evidence:
        self.checkpoint(*changed, moment="turn_end")
        return evidence_of(self.events)


def begun() -> Log:
    return Log().checkpoint()


def test_tests_that_pass_after_the_last_change_are_evidence():
    found = begun().edit("a.py").run("pytest").end("a.py")
    assert (found.status, found.files_changed) == ("passed", ("a.py",))
    assert found.changed_at < found.passed_at


def test_tests_before_the_last_change_are_none():
    assert begun().run("pytest").edit("a.py").end("a.py").status == "outdated"


def test_a_change_by_a_command_counts_as_one_by_a_tool():
    assert begun().run("pytest").checkpoint().run("./generate").end("a.py").status == "outdated"
    assert begun().run("./generate").checkpoint("a.py").run("pytest").end().status == "passed"


def test_what_tests_write_themselves_is_not_held_against_them():
    assert (
        begun().edit("a.py").run("pytest --junitxml=r.xml").end("a.py", "r.xml").status == "passed"
    )


def test_a_change_after_the_tests_within_their_command_is_seen():
    assert begun().run("pytest && ./generate").end("a.py").status == "outdated"
    assert begun().run("./generate && pytest").end("a.py").status == "passed"
    assert begun().run("pytest && git commit -qam x").end().status == "passed"


def test_of_several_commands_in_one_step_it_is_not_known_which_one_changed_a_file():
    assert begun().run("./one").run("pytest").run("./two").end("a.py").status == "unknown"


def test_what_somebody_else_changed_between_turns_makes_tests_old():
    log = begun().run("pytest").checkpoint(moment="turn_end")
    assert log.checkpoint("a.py").run("true").end().status == "outdated"


def test_where_nobody_looked_what_commands_changed_is_not_known():
    log = Log().edit("a.py").run("pytest").run("./generate")
    assert evidence_of(log.events).status == "unknown"
    assert evidence_of(log.run("ls").run("pytest").events).status == "passed"


def test_failures_stand_until_something_as_wide_passes():
    failed = begun().edit("a.py").run("pytest", 1)
    assert failed.end("a.py").status == "failed"
    narrow = failed.run("pytest tests/test_a.py").end()
    assert (narrow.status, narrow.not_run_again) == ("failed", ("pytest",))
    assert failed.run("python -m pytest -q").end().status == "passed"


@pytest.mark.parametrize(
    ("failed", "passed", "is_as_wide"),
    [
        ("pytest", "pytest", True),
        ("pytest", "pytest -k one", False),
        ("pytest -k one", "pytest", True),
        ("pytest -k one", "pytest -k one", True),
        ("pytest a b", "pytest a", True),
        ("pytest a", "pytest a b", False),
        ("pytest", "python -m unittest", False),
    ],
)
def test_what_selects_fewer_tests_does_not_stand_for_what_failed(failed, passed, is_as_wide):
    found = begun().edit("a.py").run(failed, 1).run(passed).end("a.py")
    assert found.not_run_again == (() if is_as_wide else (failed,))


def test_a_failure_that_was_not_tried_again_after_a_mend_is_named():
    found = begun().run("pytest", 1).edit("a.py").run("pytest tests/test_a.py").end("a.py")
    assert (found.status, found.not_run_again) == ("passed", ("pytest",))


def test_changed_tests_that_nothing_ran_are_named():
    log = begun().edit("tests/test_new.py", "web/a.test.ts")
    found = log.run("pytest tests/test_old.py").run("npm test").end()
    assert found.never_run == ("tests/test_new.py",)
    for covering in (
        "cd /w && pytest",
        "pytest /w/tests/test_new.py",
        "python -m unittest tests.test_new.TestIt",
        "python -m unittest discover tests",
        "pytest",
        "pytest tests",
        "pytest tests/test_new.py::test_it",
        "pytest tests/*",
    ):
        log = begun().edit("tests/test_new.py").run(covering)
        assert log.end().never_run == (), covering
    for other in ("cd docs && pytest", "pytest /w/docs", "python -m unittest tests.test_old"):
        assert begun().edit("tests/test_new.py").run(other).end().never_run, other


def test_where_the_shell_is_counts():
    log = begun().edit("app/tests/test_a.py").run("cd app", cwd="/w/app")
    assert log.run("pytest tests/test_a.py", cwd="/w/app").end().never_run == ()
    log = begun().edit("app/tests/test_a.py").run("cd docs", cwd="/w/docs")
    assert log.run("pytest", cwd="/w/docs").end().never_run == ("app/tests/test_a.py",)


def test_tests_in_a_scratch_folder_say_nothing_of_the_workspace():
    log = begun().edit("a.py").run("cd /tmp/t && pytest").run("pytest /tmp/t/test_x.py")
    assert log.end("a.py").status == "not_run"
    assert begun().edit("a.py").run("cd / && pytest w/tests /tmp/t").end("a.py").status == "passed"
    assert begun().edit("a.py").run("pytest /tmp/t && pytest").end("a.py").status == "passed"


def test_nothing_changed_and_nothing_run_is_nothing():
    assert begun().run("ls").end() == Evidence()
    assert begun().edit("a.py").end("a.py").status == "not_run"


def test_a_file_that_is_as_it_was_did_not_change():
    log = begun()
    for _ in range(2):
        done = FileEditObservation(path="a.py", digest="same")
        log.add(done.model_copy(update={"cause": log.add(FileEditAction(path="a.py"))}))
        log.run("pytest")
    log.add(done.model_copy(update={"cause": log.add(FileEditAction(path="a.py"))}))
    assert log.end("a.py").status == "passed"


def test_background_tests_count_from_when_they_were_begun():
    def job(log: Log, code: int | None) -> Log:
        return log.run("status", code, job="j1", job_id="j1")

    begin = {"code": None, "background": True, "job_id": "j1"}
    assert job(begun().edit("a.py").run("pytest", **begin), 0).end("a.py").status == "passed"
    assert job(begun().run("pytest", **begin).edit("a.py"), 0).end("a.py").status == "outdated"
    assert job(begun().run("pytest", **begin), 1).end().status == "failed"
    assert begun().run("pytest", **begin).end().tests == ()


def test_tests_that_were_cut_off_or_ran_out_of_time_prove_nothing():
    assert begun().run("pytest", 137, timed_out=True).end().status != "passed"
    log = begun()
    cause = log.add(CmdRunAction(command="pytest"))
    log.add(ErrorObservation(error_id="interrupted", content="Cut off while", cause=cause))
    [run] = log.end().tests
    assert (run.outcome, run.why) == ("unknown", "it was cut off")


def test_what_was_asked_at_a_prompt_ends_the_tests_that_asked():
    log = begun().run("pytest --pdb", None, waiting_for_input=True)
    assert log.run("c", 0, is_input=True).end().status == "passed"


def test_going_back_is_a_change():
    log = begun().edit("a.py").run("pytest").checkpoint("a.py", moment="turn_end")
    log.add(RewindAction(to_event=2, tree="1" * 40, conversation=False))
    assert evidence_of(log.events).status == "outdated"


def test_children_count():
    child = begun().edit("a.py").run("pytest").end("a.py")
    log = begun()
    done = {"agent": "coder", "session_id": "c", "files_changed": ("a.py",), "cause": 1}
    log.add(DelegateObservation(tests=child_tests(child), **done))
    found = log.end("a.py")
    assert (found.status, found.newest.session_id) == ("passed", "c")
    log.add(DelegateObservation(**done))
    assert log.end("a.py").status == "outdated"
    late = begun().run("pytest").edit("a.py").end("a.py")
    log.add(DelegateObservation(tests=child_tests(late), **done))
    assert log.end("a.py").status == "outdated"


def test_the_check_of_the_person_counts_as_tests():
    log = begun().edit("a.py")
    log.add(
        RequirementJudgedObservation(requirement="check", met=True, command="./ok", exit_code=0)
    )
    found = log.end("a.py")
    assert (found.status, found.newest.runner) == ("passed", "check")


def test_an_imported_log_proves_the_same():
    log = begun().run("pytest").checkpoint().run("./generate")
    before = log.end("a.py")
    imported = [
        NullObservation(id=event.id, changed=event.changed)
        if isinstance(event, CheckpointObservation)
        else event
        for event in log.events
    ]
    assert evidence_of(imported) == before


def test_nothing_is_gathered_before_the_first_reply_unless_the_evidence_is_asked_for(monkeypatch):
    gathered = []
    monkeypatch.setattr(
        EvidenceFold, "of", lambda events: gathered.extend(events) or EvidenceFold()
    )
    first, reply = (
        begun().events,
        CmdRunAction(command="ls", reply=ReplyPart(id="r", index=0, total=1)),
    )
    deferred = DeferredEvidence(first[:1])
    deferred.on_event(first[1])
    assert gathered == []
    deferred.on_event(reply)
    assert gathered == [*first, reply]
    gathered.clear()
    assert DeferredEvidence(first).evidence == Evidence()
    assert gathered == first
