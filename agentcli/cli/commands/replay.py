"""Show a session again, or repeat it and compare.

Without other options, the session is shown as it went, with shortened waits. --verify repeats it in
a copy of the files that it began with: the model's tool calls are carried out again, in the
sandbox, and each result is compared with the recorded one; the first difference is shown, exit 1.
A recording (agent run --record FILE, or --save FILE here) is shown and verified like a session;
with --model and --dir its task is done from the start, in a new session. To let another model go on
with a session, fork it: agent fork --at EVENT -m MODEL

Examples:
  agent replay parser --speed 4
  agent replay --from 12 --to 30
  agent replay parser --verify
  agent replay parser --save parser.jsonl
  agent replay parser.jsonl --verify
  agent replay parser.jsonl --model sonnet --dir ../again
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from agentcli.cli.options import Json, SessionOption, argument, option
from agentcli.errors import UsageError

_SHOW = "showing a session"
_MODES = {
    "--speed": (_SHOW,),
    "--step": (_SHOW,),
    "--from": (_SHOW,),
    "--to": (_SHOW,),
    "--dir": ("--model",),
    "--json": ("--verify",),
}
"""What each option is for."""


def replay(
    named: Annotated[
        str | None,
        argument(
            "SESSION",
            "Id, unique start of one, or name; the newest here if left out; or a recording.",
        ),
    ] = None,
    session: SessionOption = None,
    speed: Annotated[
        float | None, option("--speed N", "N times as fast; 0: at once, as in a pipe.", min=0)
    ] = None,
    step: Annotated[bool, option("--step", "Wait for Enter before each step; q ends.")] = False,
    first: Annotated[int | None, option("--from EVENT", "The first event.", min=0)] = None,
    last: Annotated[int | None, option("--to EVENT", "The last event.", min=0)] = None,
    verify: Annotated[bool, option("--verify", "Do it again in a copy, and compare.")] = False,
    model: Annotated[
        str | None, option("--model, -m NAME", "Let this model do the task of a recording.")
    ] = None,
    folder: Annotated[
        Path | None, option("--dir DIR", "With --model: a new folder for the files.")
    ] = None,
    save: Annotated[Path | None, option("--save FILE", "Write a recording of it.")] = None,
    as_json: Json = False,
) -> int:
    mode = _mode({"--verify": verify, "--model": model is not None, "--save": save is not None})
    options: dict[str, object] = {"--speed": speed, "--step": step or None, "--from": first}
    options |= {"--to": last, "--dir": folder, "--json": as_json or None}
    _require_for(mode, [option for option, value in options.items() if value is not None])
    # --help and wrong options don't need the modules of sessions.
    from agentcli.cli import replaying
    from agentcli.replay.recording import Recording

    source = replaying.source_of(named, session)
    if verify:
        return replaying.verify(source, as_json=as_json)
    if save is not None:
        return replaying.save(source, save)
    if model is not None:
        if not isinstance(source, Recording):
            raise UsageError(
                "--model is for recordings",
                hint=f"agent fork {source.folder.name} --at EVENT -m {model}",
            )
        return replaying.do_task(source, model, folder)
    return replaying.show(source, speed, first or 0, last, step=step)


def _mode(given: Mapping[str, bool]) -> str:
    """Return the option that says what to do. Raises UsageError for several."""
    modes = [option for option, is_given in given.items() if is_given]
    if len(modes) > 1:
        raise UsageError(f"{' and '.join(modes)} can't be combined")
    return modes[0] if modes else _SHOW


def _require_for(mode: str, given: Sequence[str]) -> None:
    """Raise UsageError for an option that would have no effect."""
    for name, modes in _MODES.items():
        if name in given and mode not in modes:
            hint = "agent sessions show --json has the events" if name == "--json" else ""
            raise UsageError(f"{name} is for {' and '.join(modes)}", hint=hint)


COMMAND = replay
