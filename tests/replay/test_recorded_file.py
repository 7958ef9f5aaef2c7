"""What is written from a recording stays in its folder, whatever it says."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from agentcli.errors import SessionError
from agentcli.replay.recording import RecordedFile, write_below

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
TARGETS = st.sampled_from(
    [".", "..", "../..", "../outside", "../outside/a", "a", "b/c", "/OUTSIDE"]
)
FILES = st.one_of(
    st.builds(
        RecordedFile, PATHS, data=st.binary(max_size=3), mode=st.sampled_from([0o400, 0o755])
    ),
    st.builds(RecordedFile, PATHS, link=TARGETS),
    st.builds(RecordedFile, PATHS, mode=st.sampled_from([0o500, 0o777])),
    st.builds(RecordedFile, PATHS, gone=st.just(True)),
)


@given(
    st.lists(st.lists(FILES, max_size=8), min_size=1, max_size=4),
    st.sampled_from(["", "a", "a/b"]),
)
@example([[], [RecordedFile("a", mode=0o500)]], "a")
def test_nothing_is_written_outside_and_the_last_entry_of_a_path_counts(groups, worked_in):
    with tempfile.TemporaryDirectory() as base:
        top, outside = Path(base, "top"), Path(base, "outside")
        for place in (top, outside / "a" / "b", outside / "c"):
            place.mkdir(parents=True)
        for place in (outside / "b", outside / "a" / "c"):
            place.write_text("kept")
        before = looked_at(Path(base), besides=top)
        for group in groups:
            group = [with_target(file, outside) for file in group]
            inside = looked_at(top)
            try:
                write_below(top, group, top / worked_in)
            except SessionError:
                assert looked_at(top) == inside
            else:
                for file in {file.path: file for file in group}.values():
                    assert_is(top, file)
                assert (top / worked_in).resolve(strict=True) == top.resolve() / worked_in
            assert looked_at(Path(base), besides=top) == before


def with_target(file: RecordedFile, outside: Path) -> RecordedFile:
    if file.link is None:
        return file
    return RecordedFile(file.path, link=file.link.replace("/OUTSIDE", str(outside)))


def looked_at(top: Path, besides: Path | None = None) -> list[tuple[str, int, int, object]]:
    """Path, mode, inode and content of what is there."""
    found = []
    waiting = [top]
    while waiting:
        for path in waiting.pop().iterdir():
            info = path.lstat()
            content: object = None
            if stat.S_ISLNK(info.st_mode):
                content = str(path.readlink())
            elif stat.S_ISREG(info.st_mode):
                content = path.read_bytes()
            elif path != besides:
                waiting.append(path)
            if path != besides:
                found.append((str(path), info.st_mode, info.st_ino, content))
    return sorted(found, key=lambda each: each[0])


def assert_is(top: Path, file: RecordedFile) -> None:
    path = top / file.path
    if file.gone:
        # Through a link on the way it may lead anywhere.
        ways = (top / parent for parent in Path(file.path).parents[:-1])
        assert any(way.is_symlink() for way in ways) or not os.path.lexists(path)
    elif file.link is not None:
        assert str(path.readlink()) == file.link
    elif file.is_folder:
        assert stat.S_ISDIR(path.lstat().st_mode)
        assert stat.S_IMODE(path.lstat().st_mode) == file.mode
    else:
        assert stat.S_IMODE(path.lstat().st_mode) == file.mode
        assert path.read_bytes() == file.data
