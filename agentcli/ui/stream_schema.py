"""Types for the lines of stream-json, used only for their JSON Schema and in tests."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, NonNegativeInt, TypeAdapter


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Base(_Strict):
    schema_version: Literal[1]
    session_id: str
    seq: Annotated[int, Field(ge=0, description="0 for the first line, then one more each")]
    ts: Annotated[AwareDatetime, Field(strict=False)]


class InitLine(_Base):
    """A process has opened the session."""

    type: Literal["init"]
    event_id: int
    model: str
    workspace: str
    version: str
    sandbox: str
    name: str | None
    resumed: bool


class MessageLine(_Base):
    type: Literal["message"]
    event_id: int
    role: Literal["user", "assistant"]
    content: str


class ToolUseLine(_Base):
    """A call of the model. `input` is the parsed arguments, or their text when it is not a JSON
    object."""

    type: Literal["tool_use"]
    event_id: int
    tool_call_id: str
    name: str
    input: dict[str, Any] | str


class ToolResultLine(_Base):
    """The result of a call. `cause` is the event_id of the tool_use; `data` depends on `kind`: exit
    code, diff, … `tool_call_id` is null if an earlier process reported the call."""

    type: Literal["tool_result"]
    event_id: int
    cause: int
    tool_call_id: str | None
    kind: str
    content: str
    is_error: bool
    data: dict[str, Any]


class StateLine(_Base):
    type: Literal["state"]
    event_id: int
    state: str
    reason: str
    message: str
    exit_code: int | None


class NoticeLine(_Base):
    """Anything else: decision, retry, condensation, automatic recall, …; `event_id` is null for
    notices that are not recorded."""

    type: Literal["notice"]
    event_id: int | None
    kind: str
    message: str
    data: dict[str, Any]


class UsageData(_Strict):
    prompt_tokens: Annotated[NonNegativeInt, Field(description="cached ones included")]
    completion_tokens: NonNegativeInt
    cache_read_tokens: NonNegativeInt
    cache_write_tokens: NonNegativeInt
    reasoning_tokens: NonNegativeInt


class ErrorData(_Strict):
    message: str
    hint: str


class TestRunData(_Strict):
    """A command that looks like tests, or the check that was asked for. `session_id` is the child
    that ran it, or empty."""

    event_id: int
    command: str
    runner: str
    outcome: Literal["passed", "failed", "unknown"]
    why: Annotated[str, Field(description="of an unknown outcome")]
    session_id: str


class EvidenceData(_Strict):
    """What the log of the session proves; see docs/records.md."""

    status: Annotated[
        Literal["none", "not_run", "passed", "failed", "outdated", "unknown"],
        Field(description="of tests, for the files as they were left"),
    ]
    tests: list[TestRunData]
    files_changed: list[str]
    changed_at: Annotated[int | None, Field(description="event of the last change of a file")]
    passed_at: Annotated[int | None, Field(description="event of the last run that passed")]
    never_run: Annotated[list[str], Field(description="test files that changed and were not run")]
    not_run_again: Annotated[list[str], Field(description="commands that failed, not fixed since")]


class CheckData(_Strict):
    """The result of a check. `exit_code` is null if the check was stopped at its time limit; `tail`
    is the end of its output."""

    command: str
    exit_code: int | None
    duration_s: float
    tail: str
    passed: bool


class TryData(_Strict):
    """One of several tries at a task. `check` is null if it was not run; `chosen` means that this
    try's changes are in the workspace now."""

    number: int
    session_id: str
    model: str
    status: str
    exit_code: int
    check: CheckData | None
    files: NonNegativeInt
    added: NonNegativeInt
    removed: NonNegativeInt
    cost_usd: float | None
    duration_s: float
    answer: str
    error: str
    chosen: bool


class ResultLine(_Base):
    """Always the last line; `cost_usd` is null if a price is not known."""

    type: Literal["result"]
    status: str
    reason: str
    exit_code: int
    answer: str
    usage: UsageData
    cost_usd: float | None
    duration_s: float
    steps: NonNegativeInt
    files_changed: list[str]
    tmp_files: list[str]
    tmp_folder: str
    evidence: EvidenceData
    tries: list[TryData]
    resume_command: str
    error: ErrorData | None


Line = Annotated[
    InitLine | MessageLine | ToolUseLine | ToolResultLine | StateLine | NoticeLine | ResultLine,
    Field(discriminator="type"),
]


def stream_schema() -> dict[str, Any]:
    """Return the JSON Schema of one line."""
    schema: dict[str, Any] = TypeAdapter(Line).json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "A line of agent's stream-json output"
    return schema
