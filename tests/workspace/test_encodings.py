"""How the encoding of a file is told. The declarations' forms are those of PEP 263, XML 1.0, HTML's
standard, CSS Syntax, Emacs and Vim."""

from __future__ import annotations

import pytest

from agentcli.errors import ToolError
from agentcli.workspace.encodings import start_as_text
from agentcli.workspace.text import text_file
from agentcli.workspace.tracking import FileTracker

DECLARED = [
    ("a.py", "# -*- coding: latin-1 -*-\nx = 'é'\n", "iso8859-1"),
    ("a.py", "#!/usr/bin/python\n# vim: set fileencoding=gbk :\n# 你\n", "gbk"),
    ("run", "#!/usr/bin/env python\n# coding=koi8-r\n# Привет\n", "koi8-r"),
    ("a.rb", "# encoding: cp1251\n# Привет\n", "cp1251"),
    ("a.xml", '<?xml version="1.0" encoding="ISO-8859-15"?>\n<a>€</a>', "iso8859-15"),
    ("a.html", '<html>\n<meta charset="windows-1251"> Привет', "cp1251"),
    ("a.html", '<meta http-equiv=x content="text/html; charset=iso-8859-1"> € ™', "cp1252"),
    ("a.css", '@charset "iso-8859-1";\n/* é */', "iso8859-1"),
    ("a.c", "/* -*- mode: c; coding: euc-jp-unix -*- */\n// 日本\n", "euc_jp"),
]


@pytest.mark.parametrize(("name", "text", "encoding"), DECLARED)
def test_what_a_file_declares_is_believed(name, text, encoding):
    file = text_file(text.encode(encoding), name)
    assert (file.text, file.encoding) == (text, encoding)
    assert not file.guessed


@pytest.mark.parametrize(("name", "text", "encoding"), DECLARED)
def test_it_counts_before_there_is_anything_but_ascii(tmp_path, name, text, encoding):
    path = tmp_path / name
    plain = text.encode("ascii", "ignore")
    path.write_bytes(plain)
    files = FileTracker(tmp_path)
    files.write(path, text, files.read_text(path))
    assert path.read_bytes() == text.encode(encoding)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.md", "# Encoding: gbk is é\n".encode()),
        ("a.py", "# coding: no-such-thing\n# é\n".encode()),
        ("a.py", "# coding: utf-16\n# é\n".encode()),
        ("a.py", "x = 1\n# coding: latin-1\n# é\n".encode()),
        ("a.py", "# coding: hex\n# é\n".encode()),
    ],
)
def test_what_only_looks_like_a_declaration_or_can_not_be_one_is_none(name, data):
    assert text_file(data, name).encoding == "utf-8"


@pytest.mark.parametrize(
    "text",
    ["café\n", "Straße", "5 € for brand™", "don\u2019t \u201cquote\u201d", "Müller"],
)
def test_western_text_is_cp1252(text):
    file = text_file(text.encode("cp1252"))
    assert (file.text, file.encoding, file.guessed) == (text, "cp1252", False)


EASTERN = [
    ("你好世界这是注释", "gbk"),
    ("日本語のテキスト", "shift_jis"),
    ("テスト", "shift_jis"),
    ("Привет, мир", "cp1251"),
    ("Привет, мир", "koi8-r"),
    ("繁體中文註解", "big5"),
    ("한국어 주석입니다", "euc-kr"),
    ("日本語のコメント", "euc-jp"),
    ("中", "gbk"),
]


@pytest.mark.parametrize(("text", "encoding"), EASTERN)
def test_other_text_is_called_a_guess_and_keeps_its_bytes(tmp_path, text, encoding):
    path = tmp_path / "a.txt"
    path.write_bytes(f"# {text}\nx = 1\n".encode(encoding))
    files = FileTracker(tmp_path)
    file = files.read_text(path)
    assert file.guessed
    with pytest.raises(ToolError, match=r"only guessed.*encoding="):
        files.write(path, file.text.replace("x = 1", "x = é"), file)
    files.write(path, file.text.replace("x = 1", "x = 2"), file)
    assert path.read_bytes() == f"# {text}\nx = 2\n".encode(encoding)
    told = files.read_text(path, encoding)
    files.write(path, told.text.replace("x = 2", f"x = '{text}'"), told)
    assert path.read_bytes() == f"# {text}\nx = '{text}'\n".encode(encoding)


def test_a_changed_declaration_changes_the_bytes(tmp_path):
    path = tmp_path / "a.py"
    files = FileTracker(tmp_path)
    path.write_bytes("# coding: latin-1\n# é\n".encode("latin-1"))
    file = files.read_text(path)
    written = files.write(path, file.text.replace("latin-1", "utf-8"), file)
    assert path.read_text() == "# coding: utf-8\n# é\n"
    assert written.note == " (encoded as utf-8)"
    files.write(path, "# é\n", files.read_text(path))
    assert path.read_text() == "# é\n"


def test_a_file_is_converted_on_demand_unless_it_declares_something_else(tmp_path):
    path = tmp_path / "a.py"
    files = FileTracker(tmp_path)
    path.write_bytes(b"# caf\xe9\n")
    assert files.write(path, "# café 日\n", files.read_text(path, "utf-8")).note
    assert path.read_text() == "# café 日\n"
    path.write_bytes(b"# coding: latin-1\n# caf\xe9\n")
    with pytest.raises(ToolError, match=r"declares iso8859-1.*Change the declaration"):
        files.write(path, "# coding: latin-1\n# 日\n", files.read_text(path, "utf-8"))
    with pytest.raises(ToolError, match="no text encoding 'hex'"):
        files.read_text(path, "hex")


def test_what_a_codec_would_replace_is_refused(tmp_path):
    path = tmp_path / "a.py"
    path.write_bytes("# coding: shift_jis\n# 日\n".encode("shift_jis"))
    files = FileTracker(tmp_path)
    with pytest.raises(ToolError, match="shift_jis, which has no ¥"):
        files.write(path, "# coding: shift_jis\n# ¥\n", files.read_text(path))


def test_a_beginning_that_ends_within_a_character_is_utf8():
    assert start_as_text("é日".encode() * 100 + b"\xe6\x97").encoding == "utf-8"
