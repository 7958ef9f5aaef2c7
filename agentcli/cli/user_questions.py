"""Questions to the user at the terminal before work begins, and the builder that asks them: whether
to trust a folder, and which folders may be written to.
"""

from __future__ import annotations

import json
import shlex
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.agents import ApproverFactory
from agentcli.app.builders import NOBODY, UserQuestions, load_builder
from agentcli.app.configuration.trust import Answer, settings_of
from agentcli.app.containment import what_it_is
from agentcli.cli.builders import given_settings
from agentcli.cli.flags import Flags
from agentcli.errors import ConfigError, os_error_text
from agentcli.events.progress import Notice
from agentcli.security.trust import PROJECT_CONFIG, TOOL_SERVERS, Fingerprint, TrustState
from agentcli.settings import Settings
from agentcli.system.homes import expanded
from agentcli.ui.approver import TerminalApprover
from agentcli.ui.renderer import TerminalRenderer
from agentcli.ui.text import reveal_hidden
from agentcli.ui.tty import Questions, can_ask

if TYPE_CHECKING:
    from agentcli.cli.conversation.display import SharedRenderer


def ask_folders(workspace: Path, home: Path) -> list[str]:
    """Ask which folders may be written to, and return those that the user names, which may be none:
    in the home folder and above it, nothing else is writable. An interrupt passes through."""
    question = (
        f"\n{reveal_hidden(what_it_is(workspace, home))}. Which folders in it may be changed?\n"
        "Name them, separated by spaces; press Enter to let nothing be changed.\n> "
    )
    with suppress(OSError, termios.error), Questions() as terminal:
        while (line := terminal.ask(question)) is not None:
            try:
                return [str(folder) for folder in named_folders(line, workspace)]
            except ValueError as error:
                question = f"  {reveal_hidden(str(error))}\n> "
    return []


def named_folders(line: str, workspace: Path) -> Iterator[Path]:
    """Yield the folders named in a line that is quoted as for a shell; relative ones are in
    `workspace`. Raises ValueError for a word that names no folder."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ValueError("a quote is not closed; name them again") from error
    for word in words:
        try:
            folder = workspace / expanded(word.rstrip(","))
            is_there = folder.is_dir()
        except ConfigError as error:
            raise ValueError(error.message) from error
        except OSError as error:
            raise ValueError(os_error_text(error)) from error
        if not is_there:
            raise ValueError(f"there is no folder {folder}; name others, or none")
        yield folder


def ask_trust(found: Fingerprint, state: TrustState) -> Answer:
    """Show the user at the terminal what `found` would do, and ask whether to trust it. The end
    of input counts as a no, and so does a terminal that is gone; an interrupt passes through."""
    question = "\n".join(
        [
            "",
            *would_take_effect(found, state),
            "",
            "Do you trust it? Until you do, only settings stricter than yours apply.",
            "  y      yes, as it is now",
            "  n      no, not this time",
            "  never  no, and do not ask again",
            "> ",
        ]
    )
    with suppress(OSError, termios.error), Questions() as terminal:
        while (answer := terminal.ask(question)) is not None:
            match answer.lower():
                case "y" | "yes":
                    return "yes"
                case "n" | "no" | "":
                    return "no"
                case "never":
                    return "never"
            question = "  y, n or never > "
    return "no"


def would_take_effect(found: Fingerprint, state: TrustState) -> Iterator[str]:
    """Yield lines that show in full what would take effect, with every character visible."""
    folder = reveal_hidden(str(found.workspace))
    if found.fault:
        yield f"{folder} can't be trusted: {reveal_hidden(found.fault)}"
        return
    if not found.files:
        yield f"{folder} has nothing that needs trust"
        return
    when = "now" if state.trusted else "if trusted"
    yield f"{folder} has settings or files that take effect {when}:"
    for name in state.changed:
        yield f"  changed since you trusted it: {reveal_hidden(name)}"
    try:
        for key, value in settings_of(found).items():
            yield from _setting(key, value)
    except ConfigError as error:
        yield "  settings with a mistake, which would stop every run once trusted:"
        yield f"    {reveal_hidden(error.message)}"
    if TOOL_SERVERS in found.contents:
        yield f"  {TOOL_SERVERS} (tool servers)"
        yield from _block(found.contents[TOOL_SERVERS].decode("utf-8", "replace"))
    for name in found.files:
        if name not in (PROJECT_CONFIG, TOOL_SERVERS):
            yield f"  file {reveal_hidden(name)}"


def _setting(key: str, value: Any) -> Iterator[str]:
    if not key.startswith("hooks.") or not isinstance(value, list):
        shown = json.dumps(value, ensure_ascii=False, default=str)
        yield f"  sets {reveal_hidden(key)} = {reveal_hidden(shown)}"
        return
    for hook in value:
        if isinstance(hook, dict):
            matcher = f" on {hook['matcher']}" if hook.get("matcher") else ""
            yield f"  runs as a hook, at {reveal_hidden(key.removeprefix('hooks.') + matcher)}:"
            yield from _block(str(hook.get("command", "")))


def _block(text: str) -> Iterator[str]:
    return (f"  │ {reveal_hidden(line)}" for line in text.rstrip("\n").split("\n"))


def asking_builder(
    flags: Flags,
    workspace: Path,
    renderer: TerminalRenderer | SharedRenderer,
    *,
    suspended: Callable[[], AbstractContextManager[None]] = nullcontext,
    approves: bool = True,
    folds: bool = False,
    interactive: bool = False,
) -> AgentBuilder:
    """Return a builder under the settings in force in `workspace`; `renderer` shows what was left
    out of them. `suspended` is entered while the terminal is used for a question. Nobody is asked
    for approval unless `approves`; `folds` is that of TerminalApprover. Raises ConfigError."""

    def trusts(found: Fingerprint, state: TrustState) -> Answer:
        with suspended():
            return ask_trust(found, state)

    @cache
    def name_folders(folder: Path, home: Path) -> Sequence[str]:
        with suspended():
            return ask_folders(folder, home)

    def approver_factory(settings: Settings) -> ApproverFactory:
        return lambda offers, current_text: TerminalApprover(
            offers=offers,
            current_text=current_text,
            before_asking=renderer.pause,
            suspended=suspended,
            timeout_s=settings.agent.approval_timeout_s,
            folds=folds,
        )

    questions = NOBODY
    if can_ask():
        attended = UserQuestions(trusts, approver_factory, name_folders)
        questions = attended if approves else UserQuestions(trusts)
    builder, notices = load_builder(
        workspace, given_settings(flags), questions, interactive=interactive
    )
    for notice in notices:
        renderer.on_progress(Notice(notice))
    return builder
