"""The tree of commands; each group is one file of this folder."""

from __future__ import annotations

from typing import Annotated

import typer

from agentcli import __version__
from agentcli.cli import (
    compact,
    config,
    context,
    demo,
    doctor,
    going_back,
    models,
    notes,
    policy,
    resume,
    run,
    schema,
    sessions,
    tell,
    trust,
)

app = typer.Typer(
    name="agent",
    help="A coding assistant for the terminal.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"agent {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """A coding assistant for the terminal. Start with: agent run "fix the failing test"."""


app.command("run")(run.run)
app.command("resume")(resume.resume)
app.command("tell")(tell.tell)
app.command("compact")(compact.compact)
app.command("context")(context.context)
app.command("undo")(going_back.undo)
app.command("rewind")(going_back.rewind)
app.command("fork")(going_back.fork)
app.command("diff")(going_back.diff)
app.command("demo")(demo.demo)
app.command("models")(models.models)
app.command("notes")(notes.notes)
app.command("doctor")(doctor.doctor)
app.command("trust")(trust.trust)
app.command("schema")(schema.schema)
app.add_typer(sessions.app, name="sessions")
app.add_typer(config.app, name="config")
app.add_typer(policy.app, name="policy")
