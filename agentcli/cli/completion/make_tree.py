"""Collect every command, setting and catalogued model, for completion."""

from __future__ import annotations

from typing import Any

from agentcli.cli.command_tree import command_tree
from agentcli.llm.catalog import catalogued_models
from agentcli.llm.provider import known_providers
from agentcli.settings import ProviderSettings, Settings, descriptions

_KINDS = {
    "PROVIDER/MODEL": "models",
    "SESSION": "sessions",
    "KEY=VALUE": "assignments",
    "KEY": "keys",
    "COMMAND": "commands",
    "SKILL": "skills",
    "DIR": "folders",
    "SOURCE": "folders",
    "FILE": "files",
}
"""What completes an option or argument, by its name in the help."""


def make_tree() -> dict[str, Any]:
    """Return commands with their options and arguments, setting keys, and models by provider."""
    tree = _node(command_tree())
    # `agent -c` means `agent chat -c`.
    tree["options"] |= tree["commands"]["chat"]["options"]
    return {**tree, "keys": _keys(), "models": _models()}


def _node(command: Any) -> dict[str, Any]:
    if (inner := getattr(command, "commands", None)) is not None:
        loaded = {name: listed.load() for name, listed in inner.items()}
        nodes = {name: _node(each) for name, each in loaded.items()}
        return {"help": _first(command.help), "commands": nodes, "options": _options(command)}
    arguments = [
        _kind(each.metavar or "") for each in command.params if each.param_type_name == "argument"
    ]
    options = _options(command)
    return {"help": _first(command.help), "options": options, "arguments": arguments}


def _kind(metavar: str) -> str:
    """Return what completes a value called `metavar` in the help; a name with bars lists the
    choices itself."""
    return metavar if "|" in metavar else _KINDS.get(metavar, "text")


def _options(command: Any) -> dict[str, Any]:
    shown = {"--help": {"help": "Show this message and exit.", "kind": ""}}
    for each in command.params:
        if each.param_type_name != "option" or each.hidden:
            continue
        kind = "" if each.is_flag or each.count else _kind(each.metavar or "")
        shown |= {name: {"help": each.help or "", "kind": kind} for name in each.opts}
    return shown


def _first(text: str | None) -> str:
    """Return the first sentence of a help text, or its first line."""
    return (text or "").partition("\n")[0].partition(". ")[0].rstrip(".")


def _keys() -> dict[str, str]:
    """Return each setting with its description; those of a provider appear for each known one."""
    keys = dict(descriptions(Settings))
    for name in known_providers():
        keys |= {f"providers.{name}.{key}": said for key, said in descriptions(ProviderSettings)}
    return keys


def _models() -> dict[str, list[str]]:
    known = known_providers()
    return {name: catalogued_models(name) for name in known if known[name].default_model}
