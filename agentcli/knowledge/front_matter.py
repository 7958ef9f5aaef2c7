"""Parse the header of a skill or microagent: YAML between two lines of three dashes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agentcli.workspace.bounded_files import UnreadableText

_HEADER = re.compile(r"\A\s*---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_LARGEST_HEADER = 8 * 1024
_MOST_ITEMS = 50

Value = str | tuple[str | dict[str, str], ...]


@dataclass(frozen=True)
class FrontMatter:
    """A parsed header and the text after it. Every value is text as written: YAML's numbers, dates
    and booleans are not interpreted. Lists hold texts or tables of texts; values nested deeper are
    left out."""

    values: dict[str, Value] = field(default_factory=dict)
    body: str = ""

    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        return " ".join(value.split()) if isinstance(value, str) else ""

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; a single text is split at its commas."""
        value = self.values.get(key, ())
        items = value.split(",") if isinstance(value, str) else value
        texts = (" ".join(item.split()) for item in items if isinstance(item, str))
        return tuple(text for text in texts if text)

    def tables(self, key: str) -> tuple[dict[str, str], ...]:
        """Return a list of tables; a plain text in it becomes a table with just that name."""
        value = self.values.get(key, ())
        items = () if isinstance(value, str) else value
        return tuple({"name": item} if isinstance(item, str) else item for item in items)


def parse(text: str) -> FrontMatter:
    """Split `text` into its header and body; without a header, all of it is the body. Raises
    UnreadableText if the header is damaged or not a table."""
    match = _HEADER.match(text)
    if match is None:
        if re.match(r"\A\s*---[ \t]*\n", text):
            raise UnreadableText("begins with --- but has no second line of --- after its header")
        return FrontMatter(body=text)
    if len(match[1]) > _LARGEST_HEADER:
        raise UnreadableText(f"has a header of more than {_LARGEST_HEADER // 1024} kB")
    data = _loaded(match[1])
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise UnreadableText("has a header that is not made of lines like name: value")
    values = {key: _plain(value) for key, value in data.items() if isinstance(key, str)}
    return FrontMatter(values, text[match.end() :])


def _loaded(header: str) -> object:
    import yaml

    try:
        # The base loader makes only texts, lists and tables, so a header can't create objects.
        return yaml.load(header, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" on line {mark.line + 2}" if mark else ""
        problem = (error.problem or "it is not valid YAML").replace("\n", " ")
        raise UnreadableText(f"has a damaged header{where}: {problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UnreadableText("has a damaged header: it is not valid YAML") from error


def _plain(value: object) -> Value:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ()
    items = (item for item in value[:_MOST_ITEMS] if isinstance(item, str | dict))
    return tuple(item if isinstance(item, str) else _texts_of(item) for item in items)


def _texts_of(table: dict[object, object]) -> dict[str, str]:
    return {k: v for k, v in table.items() if isinstance(k, str) and isinstance(v, str)}
