"""What .editorconfig and .gitattributes ask for. The forms are those of https://spec.editorconfig.org
and of git; where git is asked, it is the judge."""

from __future__ import annotations

import subprocess

import pytest

from agentcli.errors import ToolError
from agentcli.workspace.conventions import conventions
from agentcli.workspace.tracking import FileTracker
from tests.conftest import git


def made(folder, name: str, text: str = "a\nb\n") -> bytes:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    FileTracker(folder).write(folder / name, text, None)
    return (folder / name).read_bytes()


@pytest.mark.parametrize(
    ("section", "name", "is_meant"),
    [
        ("*", "a/b.txt", True),
        ("*.bat", "a/b.bat", True),
        ("/*.bat", "a/b.bat", False),
        ("a/*.bat", "a/b.bat", True),
        ("a/**.bat", "a/c/b.bat", False),
        ("a/**/*.bat", "a/c/d/b.bat", True),
        ("*.{bat,cmd}", "b.cmd", True),
        ("{a,b}.{bat,cmd}", "b.cmd", True),
        ("{a}.bat", "a.bat", False),
        ("[ab].bat", "b.bat", True),
        ("[!ab].bat", "b.bat", False),
        ("file{1..12}.bat", "file7.bat", True),
        ("file{1..12}.bat", "file13.bat", False),
        ("?.bat", "ab.bat", False),
    ],
)
def test_sections(tmp_path, section, name, is_meant):
    (tmp_path / ".editorconfig").write_text(f"root = true\n[{section}]\nend_of_line = CRLF\n")
    assert made(tmp_path, name) == (b"a\r\nb\r\n" if is_meant else b"a\nb\n")


def test_nearer_files_count_more_and_a_root_ends_it(tmp_path):
    (tmp_path / ".editorconfig").write_text(
        "; above\n[*]\nend_of_line = crlf\ninsert_final_newline = true\n"
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in/.editorconfig").write_text("[*.txt]\nend_of_line = unset\n")
    assert made(tmp_path, "in/a.txt", "a") == b"a\n"
    assert made(tmp_path, "in/a.bat", "a\nb") == b"a\r\nb\r\n"
    (tmp_path / "in/.editorconfig").write_text("root=true # here\n")
    assert made(tmp_path, "in/b.bat", "a\nb") == b"a\nb"


@pytest.mark.parametrize(
    ("charset", "data"),
    [
        ("latin1", b"\xe9\n"),
        ("utf-8", b"\xc3\xa9\n"),
        ("utf-8-bom", b"\xef\xbb\xbf\xc3\xa9\n"),
        ("utf-16le", b"\xff\xfe\xe9\0\n\0"),
        ("utf-16be", b"\xfe\xff\0\xe9\0\n"),
    ],
)
def test_charsets_of_new_files(tmp_path, charset, data):
    (tmp_path / ".editorconfig").write_text(f"root=true\n[*]\ncharset = {charset}\n")
    assert made(tmp_path, "a.txt", "é\n") == data
    assert FileTracker(tmp_path).read_text(tmp_path / "a.txt").text == "é\n"


def test_a_charset_counts_for_existing_files(tmp_path):
    (tmp_path / ".editorconfig").write_text("root=true\n[*.txt]\ncharset = latin1\n")
    path = tmp_path / "a.txt"
    path.write_bytes(b"plain\n")
    files = FileTracker(tmp_path)
    files.write(path, "é\n", files.read_text(path))
    assert path.read_bytes() == b"\xe9\n"
    with pytest.raises(ToolError, match="iso8859-1, which has no 日"):
        files.write(path, "日\n", files.read_text(path))


def test_a_declaration_in_the_file_counts_more(tmp_path):
    (tmp_path / ".editorconfig").write_text("root=true\n[*]\ncharset = latin1\n")
    text = "# coding: utf-8\n# é\n"
    assert made(tmp_path, "a.py", text) == text.encode()


ATTRIBUTES = """\
*.bat text eol=crlf
*.sh text eol=lf
"odd name.txt" eol=crlf
/top.txt eol=crlf
sub/*.txt eol=crlf
*.bin binary eol=crlf
*.sln eol=crlf
keep.sln !eol
deep/** eol=crlf
?.pic eol=crlf
??.map eol=crlf
sub/ eol=crlf
"""


@pytest.mark.parametrize(
    "name",
    [
        *("a.bat", "sub/a.bat", "a.sh", "odd name.txt", "top.txt", "sub/top.txt", "a.bin"),
        *("a.sln", "keep.sln", "sub/keep.sln", "deep/x/y", "near/a.bat", "near/a.c"),
        *("a.pic", "é.pic", "é.map", "sub/a.c"),
    ],
)
def test_line_endings_are_those_that_git_would_check_out(repository, name):
    (repository / ".gitattributes").write_text(ATTRIBUTES)
    (repository / "near").mkdir()
    (repository / "near/.gitattributes").write_text("*.bat eol=lf\n")
    (repository / ".git/info/attributes").write_text("near/*.c eol=crlf\n")
    before = made(repository, name)
    git(repository, "add", "-A")
    (repository / name).unlink()
    subprocess.run(["git", "checkout", "--", name], cwd=repository, check=True)
    assert before == (repository / name).read_bytes()


def test_the_encoding_of_the_working_tree_is_one_that_git_takes(repository):
    lines = ["a UTF-16LE", "b UTF-16LE-BOM", "c UTF-16", "d ISO-8859-1"]
    attributes = "".join(f"{line.replace(' ', '.txt working-tree-encoding=')}\n" for line in lines)
    (repository / ".gitattributes").write_text(attributes)
    for name in "abcd":
        made(repository, f"{name}.txt", "é\n")
        assert FileTracker(repository).read_text(repository / f"{name}.txt").text == "é\n"
    git(repository, "add", "-A")
    for name in "abcd":
        done = subprocess.run(
            ["git", "cat-file", "blob", f":{name}.txt"], cwd=repository, capture_output=True
        )
        assert done.stdout == "é\n".encode()


def test_files_that_are_no_text_say_nothing(tmp_path):
    (tmp_path / ".editorconfig").mkdir()
    (tmp_path / ".gitattributes").write_bytes(b"\0*.bat eol=crlf\n")
    assert made(tmp_path, "a.bat") == b"a\nb\n"
    assert conventions(tmp_path / "a.bat").newline[0] == ""


def test_a_hidden_file_says_nothing(tmp_path):
    (tmp_path / ".editorconfig").write_text("[*]\nend_of_line=crlf\n")
    assert conventions(tmp_path / "a", lambda path: "is hidden").newline[0] == ""
