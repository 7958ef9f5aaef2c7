"""What differs between the files of two runs, from a diff of their snapshots."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from agentcli.replay.normalise import Normaliser


def differing_parts(
    diff: str, before: Normaliser, after: Normaliser, left_out: Collection[str] = ()
) -> str:
    """The parts of a unified diff in which lines differ by more than two runs do by themselves:
    those taken away are of the run `before`, those added of the one `after`. Files that are
    `left_out` are not looked at."""
    heads = tuple(f"diff --git a/{path} b/" for path in left_out)
    parts = (part for part in _parts(diff) if not part.startswith(heads))
    return "\n".join(part for part in parts if not _is_same(part, before, after))


def _parts(diff: str) -> Iterator[str]:
    """Of each file."""
    part: list[str] = []
    for line in diff.splitlines():
        if line.startswith("diff --git ") and part:
            yield "\n".join(part)
            part = []
        part.append(line)
    if part:
        yield "\n".join(part)


def _is_same(part: str, before: Normaliser, after: Normaliser) -> bool:
    head, hunks, body = part.partition("\n@@")
    only_content = hunks and not any(
        line.startswith(("old mode", "new mode", "new file", "deleted file", "rename"))
        for line in head.splitlines()
    )
    if not only_content:
        return False
    lines = body.splitlines()
    old = [before.of_output(line[1:]) for line in lines if line.startswith("-")]
    new = [after.of_output(line[1:]) for line in lines if line.startswith("+")]
    return old == new
