"""What a model can read stands in one file, so that a change of it is seen in review."""

from __future__ import annotations

from difflib import unified_diff

from tests.messages import GOLDEN, collected


def test_every_text_for_models_is_as_reviewed():
    kept, now = GOLDEN.read_text(), collected()
    changes = "\n".join(unified_diff(kept.splitlines(), now.splitlines(), "reviewed", "now", n=0))
    assert not changes, f"{changes}\n\nIf this is meant: python -m tests.messages"
