"""List the models that can be reached.

Shows their context windows and USD per million tokens, where known. Asks each provider that has a
key and each local server. In a pipe, only the names are printed.

Examples:
  agent models
  agent models | grep gpt
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from agentcli.cli.builders import builder_for, report_config_error
from agentcli.cli.error_reporting import print_error
from agentcli.cli.options import Json, NoPager
from agentcli.cli.pager import paged
from agentcli.cli.places import here
from agentcli.cli.provider_probe import ProviderAnswer, model_facts, probe_providers
from agentcli.llm.catalog import Catalog
from agentcli.ui.sanitize import printable, say, say_note

_NAME_WIDTH = 48
_HEADINGS = ("context", "$ in", "$ out")


def models(no_pager: NoPager = False, as_json: Json = False) -> int:
    builder = builder_for(here(), report_config_error)
    found = list(probe_providers(builder.registry()))
    catalog = Catalog(builder.settings.prices)
    if as_json:
        print(json.dumps([_as_dict(answer, catalog) for answer in found], indent=2))
    else:
        with paged(no_pager):
            _print(found, catalog)
    return 0 if any(answer.models for answer in found) else _tell_why_none(found)


def _tell_why_none(found: list[ProviderAnswer]) -> int:
    """Say why no model can be reached, and return the exit code for that."""
    if found and all(answer.standing == "unreachable" for answer in found):
        keys = "the key is" if len(found) == 1 else "the keys are"
        print_error(
            "no provider can be reached: is the network up?",
            f"{keys} not the reason; behind a proxy, set HTTPS_PROXY",
        )
        return 4
    if found:
        print_error("no model can be reached", "the providers' answers are above; see agent doctor")
    else:
        print_error(
            "no model can be reached: no key is set and no local server answers",
            "agent setup asks for a key, or for a local server",
        )
    return 3


def _print(found: list[ProviderAnswer], catalog: Catalog) -> None:
    columns = sys.stdout.isatty()
    if columns and any(answer.models for answer in found):
        print(line("model", _HEADINGS))
    for answer in found:
        for model in answer.models:
            name = f"{answer.provider}/{model}"
            say(line(name, model_facts(catalog, name)) if columns else name)
        if answer.error:
            say_note(f"{answer.provider}: {answer.error}")


def line(name: str, cells: tuple[str, ...]) -> str:
    """Return a row of at most 80 columns, unless the name alone is wider than its column."""
    name = printable(name, multiline=False)
    return f"{name:<{_NAME_WIDTH}} " + " ".join(f"{cell:>9}" for cell in cells)


def _as_dict(answer: ProviderAnswer, catalog: Catalog) -> dict[str, Any]:
    facts = {}
    for model in answer.models:
        prices = catalog.per_million(f"{answer.provider}/{model}")
        facts[model] = {
            "context_tokens": catalog.known_context_tokens(f"{answer.provider}/{model}"),
            "input_usd_per_million": prices and round(prices[0], 6),
            "output_usd_per_million": prices and round(prices[1], 6),
        }
    return {**asdict(answer), "known": facts}


COMMAND = models
