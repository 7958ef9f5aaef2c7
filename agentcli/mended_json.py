"""Reading arguments of calls that are JSON but for their form."""

from __future__ import annotations

import json
import re

_MOST_CHARS = 200_000
"""The repair takes time that grows faster than the text."""
_GUESSED = re.compile("missed|misplaced|different meaning")
"""In what json-repair tells of a repair: it had to guess where a text ends."""


def mended(raw: str) -> str:
    """Return `raw` as a JSON object if it is one but for its form: a raw line break, a comma too
    many, quotes of another kind, a code fence around it. Anything else is returned unchanged, above
    all what may have been cut off, which would be run in part."""
    if len(raw) > _MOST_CHARS or _is_json(raw):
        return raw
    import json_repair

    try:
        value, told = json_repair.repair_json(raw, return_objects=True, logging=True)
    except RecursionError:
        return raw
    guessed = any(_GUESSED.search(entry["text"]) for entry in told)
    whole = raw.rstrip("`\n ").endswith("}")
    if guessed or not whole or not isinstance(value, dict):
        return raw
    return json.dumps(value, ensure_ascii=False)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
