"""The reference in docs/reference and the manual page, made from the code: `python -m
tests.reference` writes them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

from agentcli import __version__
from agentcli.cli.command_tree import command_tree
from agentcli.cli.slash_command import first_line, slash_commands
from agentcli.events import Event
from agentcli.events.base import ACTIONS, OBSERVATIONS
from agentcli.settings import (
    HookSettings,
    HooksSettings,
    PriceSettings,
    ProviderSettings,
    ServerSettings,
    Settings,
    descriptions,
    flatten,
)
from agentcli.ui import stream_schema

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
MANUAL = ROOT / "agentcli" / "cli" / "agent.1"
EXIT_CODES = {
    0: "done",
    1: "failed, or the agent said that it could not do it; required evidence is missing or a "
    "required check failed",
    2: "wrong usage; unknown session, or one in use",
    3: "configuration or credentials",
    4: "the provider failed for good",
    5: "approval was needed, but nobody could be asked",
    6: "a limit on replies, money or time was reached; can be resumed",
    7: "the answer does not fit the schema",
    70: "internal error; the traceback is in the log",
    75: "the provider asks to try again later",
    130: "SIGINT: Ctrl-C",
    141: "stdout was closed",
    143: "SIGTERM or SIGHUP",
}
_ENTRY_SECTIONS = {
    "providers": ("providers.NAME", ProviderSettings),
    "prices": ("prices.MODEL", PriceSettings),
    "mcp_servers": ("mcp_servers.NAME", ServerSettings),
}
"""Tables in the settings that have one entry for each name."""

_CONSTRAINED = re.compile(r"Annotated\[(\w+), .*\]")


def pages() -> dict[str, str]:
    """Return the text of each page by the name of its file."""
    made = {
        "commands.md": ("Commands", _commands()),
        "slash-commands.md": ("Slash commands", _slash_commands()),
        "settings.md": ("Settings", _settings()),
        "exit-codes.md": ("Exit codes", _exit_codes()),
        "events.md": ("Events", _events()),
        "json-stream.md": ("JSON stream", _json_stream()),
        "hooks.md": ("Hooks", _hooks()),
    }
    return {
        name: "\n".join([f"# {title}", "", *lines]).rstrip() + "\n"
        for name, (title, lines) in made.items()
    }


def _table(head: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    """Return a table, without a `|` that would end a cell."""
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [" | ".join(" ".join(c.split()).replace("|", "\\|") for c in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def _code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def _commands() -> Iterator[str]:
    yield (
        "`agent help COMMAND` shows the same at a terminal. Every command takes `-h` and "
        "`--help`.\n"
    )
    tree = command_tree()
    for name in tree.list_commands(None):
        yield from _command(f"agent {name}", tree.commands[name].load())


def _command(path: str, command: Any, level: int = 2) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    parts = [_argument(each) for each in arguments]
    commands = getattr(command, "commands", {})
    usage = [path, *(["[OPTIONS]"] if options else []), *parts, *(["COMMAND"] if commands else [])]
    yield f"{'#' * level} `{path}`\n"
    about, _, examples = (
        inspect.cleandoc(command.help or "").replace("\b\n", "").partition("Examples:\n")
    )
    yield f"```text\n{' '.join(usage)}\n```\n"
    yield f"{_prose(about.strip())}\n"
    if examples:
        yield f"```text\n{inspect.cleandoc(examples.rstrip())}\n```\n"
    named = [o for o in options if o.name != "help"]
    if named:
        yield _table(("option", ""), [(_option(o), _prose(o.help or "")) for o in named])
    for name, sub in commands.items():
        yield from _command(f"{path} {name}", sub.load(), level + 1)


def _argument(argument: Any) -> str:
    name = (argument.metavar or argument.name).strip("[]").removesuffix("...").upper()
    shown = f"{name}..." if argument.nargs == -1 else name
    return shown if argument.required else f"[{shown}]"


def _option(option: Any) -> str:
    names = ", ".join(_code(name) for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag or option.count else option.metavar or option.name.upper()
    return f"{names} {_code(value)}".rstrip()


def _prose(text: str) -> str:
    """Return help as Markdown: what looks like markup in it is meant as it stands."""
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def _slash_commands() -> Iterator[str]:
    yield (
        "Type them in a conversation; `/help NAME` explains one. Those marked *at once* run even "
        "while the agent works, all others after the turn.\n"
    )
    rows = []
    for name, command in slash_commands().items():
        about = _prose(first_line(command.help)) + (" *At once.*" if command.at_once else "")
        rows.append((_code(f"/{name} {command.takes}".rstrip()), about))
    yield _table(("command", ""), rows)


def _settings() -> Iterator[str]:
    yield (
        "`agent config show` shows the values in force, `agent config set KEY VALUE` changes one. "
        "[Settings and files](../settings.md) says which file or variable wins.\n"
    )
    about = dict(descriptions(Settings))
    sections: dict[str, list[tuple[str, str, str]]] = {}
    for key, value in flatten(Settings()):
        if key not in _ENTRY_SECTIONS:
            row = (_code(key), _code(json.dumps(value)), _prose(about.get(key, "")))
            sections.setdefault(key.partition(".")[0], []).append(row)
    for section, rows in sections.items():
        yield f"## {section}\n"
        yield _table(("key", "default", ""), rows)
    for title, model in _ENTRY_SECTIONS.values():
        yield f"## {title}\n"
        yield _fields_table(model)


def _fields_table(model: Any) -> str:
    rows = []
    for name, field in model.model_fields.items():
        default = "required" if field.is_required() else _code(json.dumps(_default(field)))
        rows.append((_code(name), default, _prose(field.description or "")))
    return _table(("key", "default", ""), rows)


def _default(field: Any) -> Any:
    value = field.get_default(call_default_factory=True)
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _exit_codes() -> Iterator[str]:
    yield _table(
        ("code", "how the run ended"), [(str(code), told) for code, told in EXIT_CODES.items()]
    )


def _events() -> Iterator[str]:
    yield (
        "Everything that happens in a session is one of these, stored as one JSON file each. An "
        "action's own fields are under `args`, an observation's under `extras`; fields at their "
        "defaults are left out.\n"
    )
    yield f"## Every event\n\n{_prose(_doc(Event))}\n"
    yield _annotated(Event)
    for title, kinds in (("Actions", ACTIONS), ("Observations", OBSERVATIONS)):
        yield f"## {title}\n"
        for kind, cls in sorted(kinds.items()):
            if cls.__module__.startswith("agentcli."):
                yield f"### `{kind}`\n"
                if _doc(cls):
                    yield f"{_prose(_doc(cls))}\n"
                if fields := _annotated(cls):
                    yield fields


def _json_stream() -> Iterator[str]:
    yield (
        "`agent run --json` writes one JSON object a line; `agent schema` prints the JSON Schema. "
        "Every line has the fields of the first table, and `type` names its kind.\n"
    )
    yield _annotated(stream_schema._Base)
    lines = get_args(get_args(stream_schema.Line)[0])
    for cls in lines:
        yield f"## `{get_args(cls.model_fields['type'].annotation)[0]}`\n"
        yield from _described(cls, leave_out="type")
    yield "## Values in them\n"
    for cls in stream_schema._Strict.__subclasses__():
        if cls not in (stream_schema._Base, *lines) and cls.__module__ == stream_schema.__name__:
            yield f"### `{cls.__name__}`\n"
            yield from _described(cls)


def _described(cls: type, leave_out: str = "") -> Iterator[str]:
    if _doc(cls):
        yield f"{_prose(_doc(cls))}\n"
    yield _annotated(cls, leave_out)


def _annotated(cls: type, leave_out: str = "") -> str:
    """Return a table of the fields that a class adds to its base, as they are annotated."""
    fields = {
        name: _CONSTRAINED.sub(r"\1", str(told))
        for name, told in inspect.get_annotations(cls).items()
        if not str(told).startswith("ClassVar") and name not in ("model_config", leave_out)
    }
    rows = [(_code(name), _code(told)) for name, told in fields.items()]
    return _table(("field", "type"), rows) if rows else ""


def _doc(cls: type) -> str:
    """Return a class's own docstring."""
    return inspect.cleandoc(cls.__dict__.get("__doc__") or "")


def _hooks() -> Iterator[str]:
    yield (
        "Each is a list of tables in the settings, such as `[[hooks.PreToolUse]]`. "
        "[Hooks and trust](../hooks.md) says what a hook receives and how it answers.\n"
    )
    rows = [(_code(n), _prose(f.description or "")) for n, f in HooksSettings.model_fields.items()]
    yield _table(("event", "when"), rows)
    yield "## Fields of a hook\n"
    yield _fields_table(HookSettings)


def manual() -> str:
    """Return the manual page, which names each command; their options are in their own help."""
    tree = command_tree()
    commands = [
        (f"agent {name}", first_line(tree.commands[name].load().help or ""))
        for name in tree.list_commands(None)
    ]
    files = [
        ("~/.config/agent/config.toml", "your settings; agent config path names the file"),
        ("~/.local/state/agent/sessions", "sessions; AGENT_HOME or XDG_STATE_HOME move them"),
        (".agent/config.toml", "settings of a project"),
    ]
    codes = [(str(code), told) for code, told in EXIT_CODES.items()]
    return "".join(
        [
            f'.TH AGENT 1 "" "agent {__version__}" "User Commands"\n',
            ".SH NAME\nagent \\- a coding assistant for the terminal\n",
            ".SH SYNOPSIS\n.B agent\n[TASK]\n.br\n.B agent\nCOMMAND [OPTIONS] [ARGUMENTS]\n",
            ".SH DESCRIPTION\nWithout a command, agent starts a conversation. agent help COMMAND "
            "shows the options of a command, with examples.\n",
            *(
                f".SH {title}\n{_paragraphs(rows)}"
                for title, rows in (
                    ("COMMANDS", commands),
                    ("EXIT STATUS", codes),
                    ("FILES", files),
                )
            ),
        ]
    )


def _paragraphs(rows: Sequence[tuple[str, str]]) -> str:
    return "".join(f".TP\n.B {_roff(name)}\n{_roff(told)}\n" for name, told in rows)


def _roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text[:1] in (".", "'") else text


if __name__ == "__main__":
    MANUAL.write_text(manual())
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        path.unlink()
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
