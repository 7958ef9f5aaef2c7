"""A test over a table of rows: one case that names every row that fails."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each_row(names: str, rows: Iterable[Any]) -> Callable[[Callable[..., None]], Any]:
    """Run a test for every row, as `pytest.mark.parametrize` would, but as one case, whose fixtures
    the rows share. `names`: arguments, separated by commas; with several, a row is a tuple."""
    arguments = [name.strip() for name in names.split(",")]
    table = [row if len(arguments) > 1 else (row,) for row in rows]
    assert table, "a table without rows tests nothing"

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def over_all(**fixtures: Any) -> None:
            failed = []
            for row in table:
                try:
                    test(**fixtures, **dict(zip(arguments, row, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    failed.append(f"{repr(row)[:300]}: {type(error).__name__}: {error}")
            if failed:
                told = "\n".join(failed)
                pytest.fail(f"{len(failed)} of {len(table)} rows:\n{told}", pytrace=False)

        signature = inspect.signature(test)
        kept = [p for name, p in signature.parameters.items() if name not in arguments]
        over_all.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return over_all

    return decorated
