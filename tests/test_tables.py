"""A table of rows fails with every row that fails."""

from __future__ import annotations

import pytest

from tests.tables import each_row


def test_every_failing_row_is_named(tmp_path):
    seen = []

    @each_row("number, folder", [(1, "a"), (2, "b"), (3, "c")])
    def odd(number, folder, place):
        seen.append((number, place / folder))
        assert number == 2, "it is not even"

    with pytest.raises(pytest.fail.Exception) as failed:
        odd(place=tmp_path)
    told = str(failed.value)
    assert told.startswith("2 of 3 rows:\n(1, 'a'): AssertionError: it is not even")
    assert "(3, 'c'): AssertionError" in told
    assert len(seen) == 3
