"""Reading an index as git reads it, and writing one that git takes."""

from __future__ import annotations

import hashlib
import struct
import subprocess
from pathlib import Path

import pytest

from agentcli.git.index import Index, _bitmap, entries, index_data, is_refused, read_index, refused
from tests.sandbox.sandboxes import git


@pytest.fixture
def repository(tmp_path, request):
    format_ = getattr(request, "param", "sha1")
    git(tmp_path, "init", "-q", f"--object-format={format_}")
    for name in ("a", "folder/b", "folder/c", "folder/" + "long" * 1_030, "z"):
        git(tmp_path, "update-index", "--add", "--cacheinfo", f"100644,{_blob(tmp_path)},{name}")
    return tmp_path


def _blob(folder: Path) -> str:
    (folder / "payload").write_text("payload")
    return git(folder, "hash-object", "-w", "payload").strip()


def _read(folder: Path, id_bytes: int = 20) -> Index:
    def read(name: str) -> bytes | None:
        path = folder / ".git" / name
        return path.read_bytes() if path.exists() else None

    index = read_index(read, id_bytes)
    assert index is not None
    return index


def _paths(index: Index) -> list[str]:
    return [entry.path.decode() for entry in index.entries]


def _forge(folder: Path, data: bytes) -> None:
    (folder / ".git/index").write_bytes(data + hashlib.sha1(data).digest())


@pytest.mark.parametrize("repository", ["sha1", "sha256"], indirect=True)
def test_every_form_of_an_index_is_read_and_written(repository):
    id_bytes = 20 if len(_blob(repository)) == 40 else 32
    (repository / "intended").touch()
    many = "-c", "splitIndex.maxPercentChange=100"
    for prepare in (
        ("update-index", "--index-version", "2"),
        ("update-index", "--index-version", "4"),
        ("add", "-N", "intended"),
        ("update-index", "--index-version", "4", "--skip-worktree", "a"),
        ("-c", "index.threads=2", "update-index", "--index-version", "2", "--force-write-index"),
        ("update-index", "--split-index"),
        (*many, "rm", "-q", "--cached", "folder/b"),
        (*many, "update-index", "--cacheinfo", f"100755,{_blob(repository)},z"),
        (*many, "update-index", "--add", "--cacheinfo", f"120000,{_blob(repository)},m"),
    ):
        git(repository, *prepare)
        seen = git(repository, "ls-files", "-tsz")
        index = _read(repository, id_bytes)
        assert not index.is_damaged, prepare
        assert refused(index.entries) == []
        (repository / ".git/index").rename(repository / "kept")
        (repository / ".git/index").write_bytes(index_data(index, id_bytes))
        assert git(repository, "ls-files", "-tsz") == seen, prepare
        assert git(repository, "fsck") == ""
        (repository / "kept").rename(repository / ".git/index")


def test_a_first_path_has_nothing_before_it_of_which_a_part_could_be_kept():
    """In version 4, each path says how much to cut from the end of the one before."""

    def entry(cut: int, rest: bytes, length: int) -> bytes:
        fixed = struct.pack(">10I20sH", *[0] * 6, 0o100644, 0, 0, 0, bytes(20), length)
        return fixed + bytes([cut]) + rest + b"\0"

    data = struct.pack(">4sII", b"DIRC", 4, 2) + entry(9, b"ab", 2) + entry(1, b"cd", 3)
    assert [path for _, _, path in entries(data, 20)] == [b"ab", b"acd"]


def test_a_folder_outside_of_a_sparse_checkout_stays_one(repository):
    git(repository, "rm", "-q", "--cached", "folder/" + "long" * 1_030)
    git(repository, "commit", "-qm", "all")
    git(repository, "reset", "-q", "--hard")
    git(repository, "sparse-checkout", "set", "--cone", "--sparse-index")
    index = _read(repository)
    assert "folder/" in _paths(index)
    assert refused(index.entries) == []
    seen = git(repository, "ls-files", "--sparse", "-tsz")
    (repository / ".git/index").write_bytes(index_data(index, 20))
    assert git(repository, "ls-files", "--sparse", "-tsz") == seen


def _entry(
    path: bytes, *, mode: int = 0o100644, length: int | None = None, stage: int = 0
) -> bytes:
    flags = stage << 12 | (min(len(path), 0xFFF) if length is None else length)
    start = struct.pack(">10I20sH", *[0] * 6, mode, 0, 0, 0, b"1" * 20, flags)
    return start + path + bytes(8 - (len(start) + len(path)) % 8)


def _index(*entries: bytes, count: int | None = None, rest: bytes = b"") -> bytes:
    header = struct.pack(">4sII", b"DIRC", 2, len(entries) if count is None else count)
    return header + b"".join(entries) + rest


def _table(*rows: tuple[int, int]) -> bytes:
    body = struct.pack(">I", 1) + b"".join(struct.pack(">2I", *row) for row in rows)
    return b"IEOT" + struct.pack(">I", len(body)) + body


@pytest.mark.parametrize(("size", "fits"), [(63, False), (66, False), (67, True), (128, True)])
def test_the_bits_of_a_split_index_are_runs_and_words(size, fits):
    """A word with a run of 64 set bits, which one literal word follows."""
    words = struct.pack(">2Q", 1 << 33 | 1 << 1 | 1, 0b101)
    data = struct.pack(">2I", size, 2) + words + bytes(4) + b"rest"
    if fits:
        assert _bitmap(data, size) == ([*range(65), 66], b"rest")
    else:
        with pytest.raises(ValueError, match="a bit for no entry"):
            _bitmap(data, size)


A, B = _entry(b"a"), _entry(b"b")
ENDS = len(_index(A, B))


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        pytest.param(_index(A, B, count=3), ["a", "b"], id="fewer than it says"),
        pytest.param(_index(A, _entry(b"b", length=9)), ["a"], id="a length that is too long"),
        pytest.param(_index(A, B, rest=b"ABCD\x7fxxx"), ["a", "b"], id="an endless extension"),
        pytest.param(_index(A, B, rest=_table((12, 1), (12, 1))), ["a", "b"], id="another table"),
        pytest.param(_index(A, B, rest=_table((12, 1))), ["a", "b"], id="a table of some"),
        pytest.param(
            _index(A, B, rest=b"EOIE" + struct.pack(">II", 24, ENDS - 8) + bytes(20)),
            ["a", "b"],
            id="extensions in another place",
        ),
        pytest.param(
            _index(A, B, rest=b"link" + struct.pack(">I", 21) + bytes(21)), ["a", "b"], id="no bits"
        ),
    ],
)
def test_what_git_could_read_differently_counts_as_damaged(repository, data, paths):
    _forge(repository, data)
    index = _read(repository)
    if data.count(b"link"):
        assert not index.is_damaged
    else:
        assert index.is_damaged
    assert _paths(index) == paths


def test_what_threads_of_git_would_find_is_right_as_git_writes_it(repository):
    _forge(repository, _index(A, B, rest=_table((12, 1), (12 + len(A), 1))))
    assert not _read(repository).is_damaged


# --- paths --------------------------------------------------------------------------------------

_FORBIDDEN = r"""
/a a/ a//b . .. ./a a/.. a/../b a/./b ../a .git .git/a a/.git .GIT/a a/.giT/b git~1 GIT~1/a .git.
.git:: .git..:x/a git~1. a\.git a\git~1\b
"""
REFUSED = [*_FORBIDDEN.split(), ".git .", ".g\u200cit/a", "\ufeff.git", "a/.gi\u206ft\u202e/b"]
_FREE = r"""
a ... a/... .gita .github/a a.git git git~2 git~10 .git~1 a..b a\b a\..\b C:/a \.a .gité
"""
TAKEN = [*_FREE.split(), ".\u00a0git", "\u200c.a", ".git\u200d\u00e9"]
_NO_LINKS = ".gitmodules a/.GITMODULES .gitmodules. gitmod~1 GI7EBA~1 gi7eb~12 ~1234567"
LINKS = [*_NO_LINKS.split(), ".gitmodules .", ".gitm\u200dodules"]


def test_the_rules_for_paths_are_those_of_git(repository):
    """git is asked whether it would take each path, with its rules for all file systems."""
    blob = _blob(repository)
    for mode, paths in (("100644", [*REFUSED, *TAKEN, *LINKS]), ("120000", [*LINKS, *TAKEN])):
        is_link = mode == "120000"
        for path in paths:
            (repository / ".git/index").unlink(missing_ok=True)
            assert is_refused(path.encode(), is_link=is_link) == _git_refuses(
                repository, f"{mode},{blob},{path}"
            ), path
    assert all(is_refused(path.encode()) for path in ("", "a\0b", *REFUSED))
    assert not any(is_refused(path.encode()) for path in (*TAKEN, *LINKS))


def _git_refuses(folder: Path, entry: str) -> bool:
    rules = "-c", "core.protectHFS=true", "-c", "core.protectNTFS=true"
    try:
        git(folder, *rules, "update-index", "--add", "--cacheinfo", entry)
    except subprocess.CalledProcessError:
        return True
    return False


def test_nothing_is_taken_below_a_link_or_a_repository(repository):
    links = _entry(b"l", mode=0o120000), _entry(b"m", mode=0o160000)
    below = _entry(b"l/x"), _entry(b"m/n/x")
    odd = _entry(b"odd", mode=0x1234E1A4)
    in_conflict = _entry(b"c", mode=0o120000, stage=2), _entry(b"c/x")
    _forge(repository, _index(*links, *below, _entry(b"ll/x"), *in_conflict, odd))
    bad = {entry.path for entry in refused(_read(repository).entries)}
    assert bad == {b"l/x", b"m/n/x", b"odd"}


def _with_long_paths(length: int, count: int) -> bytes:
    fixed = struct.pack(">10I20sH", *[0] * 6, 0o100644, 0, 0, 0, bytes(20), 0xFFF)
    first, others = fixed + b"\0" + b"x" * length + b"\0", fixed + b"\0y\0"
    return struct.pack(">4sII", b"DIRC", 4, count) + first + others * (count - 1)


@pytest.mark.parametrize(
    "data",
    [
        # 300 GB of paths in 20 MB.
        _with_long_paths(1_000_000, 300_000),
        struct.pack(">4sII", b"DIRC", 2, 0) + b"ABCD\0\0\0\0" * 10_000_000,
    ],
    ids=["paths", "extensions"],
)
def test_a_small_index_takes_no_great_memory(repository, data):
    _forge(repository, data)
    index = _read(repository)
    assert index.is_damaged
    assert len(index.entries) < 300
