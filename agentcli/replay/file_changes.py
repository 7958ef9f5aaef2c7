"""Find what differs between the files of two runs, from a diff of their snapshots."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from agentcli.replay.normalise import Normaliser


def differing_parts(
    diff: str, before: Normaliser, after: Normaliser, left_out: Collection[str] = ()
) -> str:
    """Return the files of a unified diff that differ even after normalisation. `before` normalises
    the removed lines, `after` the added ones. Files in `left_out` are ignored."""
    heads = tuple(f"diff --git a/{path} b/" for path in left_out)
    parts = (part for part in _parts(diff) if not part.startswith(heads))
    return "\n".join(part for part in parts if not _is_same(part, before, after))


def _parts(diff: str) -> Iterator[str]:
    """Yield the part of the diff about each file."""
    part: list[str] = []
    for line in diff.splitlines():
        if line.startswith("diff --git ") and part:
            yield "\n".join(part)
            part = []
        part.append(line)
    if part:
        yield "\n".join(part)


def _is_same(part: str, before: Normaliser, after: Normaliser) -> bool:
    """Whether the part only differs in content that is the same once it is normalised."""
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
