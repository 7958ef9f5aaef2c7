"""`agent run`, and the flags that it shares with `agent resume`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from agentcli.cli import stdin
    from agentcli.cli.work import Options, Outcome
    from agentcli.wiring import Wiring, Workbench

Model = Annotated[
    str | None, typer.Option("--model", "-m", metavar="PROVIDER/MODEL", help="Model to use.")
]
Effort = Annotated[
    str | None,
    typer.Option("--effort", metavar="none|low|medium|high", help="How much the model reasons."),
]
Folder = Annotated[str | None, typer.Option("--cd", "-C", metavar="DIR", help="Folder to work in.")]
Format = Annotated[
    str,
    typer.Option(
        "--output-format",
        metavar="text|json|stream-json",
        help="What stdout carries: the answer, one JSON object, or one a line as things happen.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Same as --output-format stream-json.")]
AnswerFile = Annotated[
    Path | None,
    typer.Option(
        "--output-last-message", "-o", metavar="FILE", help="Write the answer to FILE too."
    ),
]
MaxTurns = Annotated[
    int | None,
    typer.Option("--max-turns", metavar="N", min=1, help="Most model replies; then exit 6."),
]
MaxBudget = Annotated[
    float | None,
    typer.Option(
        "--max-budget-usd",
        metavar="USD",
        min=0.0001,
        help="Most that the whole session may cost; then exit 6.",
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; may be repeated."),
]
NoStdin = Annotated[
    bool,
    typer.Option(
        "--no-stdin", help="Never read stdin; needed in loops that read lines from a file."
    ),
]
Images = Annotated[
    list[Path] | None,
    typer.Option("--image", "-i", metavar="FILE", help="Show the model an image; repeatable."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only errors on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Reasoning and whole outputs too.")]
Yolo = Annotated[bool, typer.Option("--yolo", help="Ask nothing at the terminal.")]


def run(
    task: Annotated[
        str | None, typer.Argument(help="What to do; - takes it from stdin.", metavar="TASK")
    ] = None,
    model: Model = None,
    effort: Effort = None,
    folder: Folder = None,
    continue_newest: Annotated[
        bool, typer.Option("--continue", "-c", help="Go on with the newest session here.")
    ] = False,
    session: Annotated[
        str | None,
        typer.Option("--resume", "-r", metavar="SESSION", help="Go on with this session."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the new session.")
    ] = None,
    output_format: Format = "text",
    json: Json = False,
    answer_file: AnswerFile = None,
    max_turns: MaxTurns = None,
    max_budget_usd: MaxBudget = None,
    assignments: Assignments = None,
    images: Images = None,
    no_stdin: NoStdin = False,
    yolo: Yolo = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Do a task. Piped input is added to it: git diff | agent run "review this"."""
    from agentcli.cli.resume import Reopening, Wanted
    from agentcli.cli.work import work
    from agentcli.errors import UsageError

    options = options_of(
        model,
        effort,
        folder,
        output_format,
        json,
        answer_file,
        max_turns,
        max_budget_usd,
        assignments,
        yolo,
        quiet,
        verbose,
    )
    if session is not None or continue_newest:
        if name is not None:
            raise UsageError(
                "--name is for a new session", hint="agent sessions rename gives an old one a name"
            )
        wanted = Wanted(session, newest=continue_newest)
        return work(
            options, Reopening(wanted, task, options, model, images or (), no_stdin=no_stdin)
        )
    return work(options, _Starting(task, no_stdin, name, images or ()))


def options_of(
    model: str | None,
    effort: str | None,
    folder: str | None,
    output_format: str,
    json: bool,
    answer_file: Path | None,
    max_turns: int | None,
    max_budget_usd: float | None,
    assignments: list[str] | None,
    yolo: bool,
    quiet: bool,
    verbose: bool,
) -> Options:
    from agentcli.cli.work import Options
    from agentcli.errors import UsageError

    formats = ("text", "json", "stream-json")
    if output_format not in formats:
        raise UsageError(f"--output-format {output_format}: it is one of {', '.join(formats)}")
    efforts = ("none", "low", "medium", "high")
    if effort is not None and effort not in efforts:
        raise UsageError(f"--effort {effort}: it is one of {', '.join(efforts)}")
    return Options(
        folder=folder,
        output_format="stream-json" if json else output_format,  # type: ignore[arg-type]
        answer_file=answer_file,
        quiet=quiet,
        verbose=verbose,
        overrides={
            "model.name": model,
            "model.effort": effort,
            "agent.max_turns": max_turns,
            "agent.max_budget_usd": max_budget_usd,
            "agent.approval": "yolo" if yolo else None,
        },
        assignments=assignments or (),
    )


class _Starting:
    """A new session for a task from the arguments, from stdin, or from both."""

    def __init__(
        self, task: str | None, no_stdin: bool, name: str | None, images: Sequence[Path]
    ) -> None:
        self._task = task
        self._no_stdin = no_stdin
        self._name = name
        self._images = images

    def workspace(self, folder: str | None) -> Path:
        from agentcli.wiring import resolve_workspace

        return resolve_workspace(folder)

    def _checked_name(self, wiring: Wiring) -> str | None:
        from agentcli.sessions.naming import checked_name, require_free

        if self._name is None:
            return None
        name = checked_name(self._name)
        require_free(wiring.home, name)
        return name

    def open(self, wiring: Wiring, outcome: Outcome) -> Workbench:
        from agentcli.cli import stdin
        from agentcli.errors import UsageError

        task = self._task
        if task == "-" or (task is None and stdin.is_piped() and not self._no_stdin):
            bench_task, piped = stdin.read_task(), None
        else:
            if not task or not task.strip():
                raise UsageError("the task is empty", hint='e.g. agent run "fix the failing test"')
            bench_task, piped = task, piped_beside(wiring, self._no_stdin)
        image_urls = attached(self._images)
        bench = wiring.create(outcome.subscribers, self._checked_name(wiring))
        limit = wiring.settings.input.stdin_max_bytes
        if piped is None:
            piped = stdin.Piped(b"", whole=True)
            if len(bench_task.encode()) > limit:
                piped = stdin.Piped(bench_task.encode(), whole=True)
                bench_task = "The task was piped in:"
        said = stdin.with_piped(bench_task, piped, bench.session.outputs, limit)
        bench.say(said, image_urls)
        return bench


def attached(images: Sequence[Path]) -> tuple[str, ...]:
    """The images of -i as data URLs. Raises UsageError for one that no model would take, and for
    more than fit into a request."""
    from agentcli.errors import UsageError
    from agentcli.runtime.images import MAX_TOGETHER, ImageFault, file_url
    from agentcli.runtime.names import display_path, size_text

    urls = []
    for path in images:
        try:
            urls.append(file_url(path))
        except ImageFault as fault:
            raise UsageError(f"{display_path(path)} {fault}") from fault
        except OSError as error:
            raise UsageError(f"{display_path(path)} can't be read: {error.strerror}") from error
    size = sum(len(url) for url in urls)
    if size > MAX_TOGETHER:
        raise UsageError(
            f"the images are {size_text(size)} as they are sent, more than the "
            f"{size_text(MAX_TOGETHER)} that go into one message",
            hint="make them smaller, or tell the model where they are: it can read them",
        )
    return tuple(urls)


def piped_beside(wiring: Wiring, no_stdin: bool) -> stdin.Piped:
    from agentcli.cli import stdin

    if no_stdin or not stdin.is_piped():
        return stdin.Piped(b"", whole=True)
    waits = wiring.settings.input
    return stdin.read_beside_task(waits.stdin_notice_s, waits.stdin_limit_s, stdin.tell_on_stderr)
