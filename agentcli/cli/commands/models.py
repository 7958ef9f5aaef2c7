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
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from shutil import get_terminal_size
from typing import Any

from agentcli.cli.builders import builder_for, report_config_error
from agentcli.cli.error_reporting import print_error
from agentcli.cli.options import Json, NoPager
from agentcli.cli.provider_probe import (
    ProviderAnswer,
    catalog_with,
    model_facts,
    probe_providers,
    told_facts,
)
from agentcli.cli.terminal import paged
from agentcli.cli.user_paths import here
from agentcli.llm.catalog import Catalog
from agentcli.ui.text import printable, say, say_note

_GAP = 2
_HEADINGS = ("context", "$ in", "$ out")


def models(no_pager: NoPager = False, as_json: Json = False) -> int:
    builder = builder_for(here(), report_config_error)
    registry = builder.registry()
    found = list(probe_providers(registry))
    columns = sys.stdout.isatty()
    told = told_facts(registry, found) if columns or as_json else {}
    catalog = catalog_with(builder.settings.prices, told)
    if as_json:
        print(json.dumps([_as_dict(answer, catalog) for answer in found], indent=2))
    else:
        with paged(no_pager):
            _print(found, catalog if columns else None)
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


def _print(found: list[ProviderAnswer], catalog: Catalog | None) -> None:
    """Print the names, in a table if there is a catalogue for it, and what went wrong."""
    names = [f"{answer.provider}/{model}" for answer in found for model in answer.models]
    if catalog is not None:
        shown = {printable(name, multiline=False): model_facts(catalog, name) for name in names}
        names = list(table(shown, get_terminal_size().columns)) if names else []
    for row in names:
        say(row)
    for answer in found:
        if answer.error:
            say_note(f"{answer.provider}: {answer.error}")


def table(facts: Mapping[str, tuple[str, ...]], width: int) -> Iterator[str]:
    """Yield rows of names and what is known of them, with headings. If a name is too long for that,
    its facts have the next row."""
    rows = {"model": _HEADINGS, **facts}
    cells = [max(map(len, column)) for column in zip(*rows.values(), strict=True)]
    room = width - sum(cells) - _GAP * len(cells) - 1
    longest = min(max(map(len, rows)), max(room, len("model")))
    for name, row in rows.items():
        if len(name) > longest:
            yield name
            name = ""
        known = (f"{'':{_GAP}}{cell:>{size}}" for cell, size in zip(row, cells, strict=True))
        yield f"{name:<{longest}}{''.join(known)}"


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
