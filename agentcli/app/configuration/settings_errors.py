"""Puts the faults that a settings validator finds into words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_MUST_BE = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number that is finite",
    "string_type": "text",
    "list_type": 'a list, such as ["a", "b"]',
    "dict_type": "a table",
    "model_type": "a table",
    "literal_error": "{expected}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} at most",
}
"""What a value must be, by the validator's name for the fault."""


def dotted_key(fault: ErrorDetails) -> str:
    """Return the dotted key of the wrong value."""
    return ".".join(str(part) for part in fault["loc"])


def describe_error(fault: ErrorDetails, key: str) -> str:
    """Say what is wrong with the value of `key`, or with something in it."""
    named = dotted_key(fault)
    kind, context = fault["type"], fault.get("ctx", {})
    if kind in ("missing", "extra_forbidden"):
        return f"{named} is missing" if kind == "missing" else f"there is no setting {named!r}"
    if kind in _MUST_BE:
        wanted = _MUST_BE[kind].format(**context)
        return f"{key} must be {wanted} (it is {fault['input']!r})"
    return f"{key}: {fault['msg'].removeprefix('Value error, ')} (it is {fault['input']!r})"
