from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agentcli.ui.reply import Block, BlockSplitter, render_block
from agentcli.ui.text import cells, without_escapes

TEXT = """\
# Title
A paragraph
over two lines.

- one

  still one
- two
  ```sh
  echo in a list

  ```

1. first

```python
x = 1

# not a heading
```
| a | b |
|---|---|
| 1 | 2 |
"""
BLOCKS = [
    ("# Title", "text", False),
    ("A paragraph\nover two lines.", "text", False),
    ("- one\n\n  still one", "text", False),
    ("- two\n  ```sh\n  echo in a list\n\n  ```", "text", True),
    ("1. first", "text", True),
    ("```python", "fence", False),
    ("x = 1\n\n# not a heading", "code", True),
    ("```", "fence", True),
    ("| a | b |\n|---|---|\n| 1 | 2 |", "text", False),
]


def split(*pieces):
    splitter = BlockSplitter()
    blocks = []
    for piece in pieces:
        blocks += splitter.feed(piece)
    return blocks + splitter.finish()


def joined(blocks):
    """Lines of code that came one by one, together."""
    together = []
    for text, kind, goes_on, *_ in blocks:
        if kind == "code" and together and together[-1][1] == "code":
            text = f"{together.pop()[0]}\n{text}"
        together.append((text, kind, goes_on))
    return together


def shown(text, width=60, colors="full"):
    return [
        without_escapes(row) for block in split(text) for row in render_block(block, width, colors)
    ]


@given(st.lists(st.integers(0, len(TEXT))))
def test_blocks_do_not_depend_on_how_the_text_arrives(cuts):
    edges = [0, *sorted(cuts), len(TEXT)]
    pieces = [TEXT[a:b] for a, b in pairwise(edges)]
    assert joined(split(*pieces)) == BLOCKS


@given(st.text(st.sampled_from("ab`~#-*1.>| \n")))
def test_no_line_is_lost_or_moved(text):
    words = [line for line in text.split("\n") if line.strip()]
    assert [
        line for line in "\n".join(block.text for block in split(text)).split("\n") if line.strip()
    ] == words


def test_a_block_is_complete_as_soon_as_it_is_certain():
    splitter = BlockSplitter()
    assert splitter.feed("Some text") == []
    assert splitter.open.text == "Some text"
    assert splitter.feed(".\n\n") == [Block("Some text.")]
    assert [block.kind for block in splitter.feed("```\ncode\n\n")] == ["fence", "code"]
    assert splitter.feed("```\n- one\n- tw") == [Block("```", "fence", joined=True)]
    assert splitter.feed("o\n") == [Block("- one")]
    assert splitter.open == Block("- two\n", joined=True)


def test_the_preview_of_a_long_table_keeps_its_head():
    splitter = BlockSplitter()
    splitter.feed("| a |  b |\n|---|----|\n" + "".join(f"| {n} | x |\n" for n in range(500)))
    lines = splitter.open.text.split("\n")
    assert len(lines) < 100
    assert lines[:2] == ["| a |  b |", "|---|----|"]


def test_a_line_of_code_knows_what_stands_above_it():
    """Else the second line of a string would not look like one."""
    *_, last, _ = split('```python\nx = """\n', "if not\n", '"""\n```\n')[:-1]
    assert last.text == "if not"
    assert render_block(last, 60, "full") == ["\x1b[32mif not\x1b[0m"]


CODE = "docker run --rm -v $PWD:/work python:3.12 python -m pytest -q"
URL = "https://example.org/" + "deep/" * 20


def test_code_and_addresses_are_never_broken():
    assert f"`{CODE}`" in shown(f"Then run `{CODE}` as it is.", 40, "none")
    assert shown(f"See {URL} or so.", 40) == ["See", URL, "or so."]
    assert shown(f"- a\n- run `{CODE}`\n", 40)[-1] == f"   {CODE}"
    assert shown(f"```sh\n{CODE}\n```", 40) == [CODE]
    assert shown(f"1. do\n\n   ```sh\n   {CODE}\n   ```\n", 40)[-1] == f"   {CODE}"


def test_code_is_told_from_text_without_colours():
    text = "Use `ls`:\n\n```sh\nls -l\n```\n"
    assert shown(text, colors="none") == ["Use `ls`:", "```sh", "ls -l", "```"]
    assert shown(text) == ["Use ls:", "ls -l"]


def test_links_lead_where_they_say():
    [row] = render_block(
        Block("[docs](https://example.org/a) and http://b.org/x."), 90, "none", links=True
    )
    assert without_escapes(row) == "docs (https://example.org/a) and http://b.org/x."
    assert row.count("\x1b]8;;https://example.org/a\x1b\\") == 2
    assert "\x1b]8;;http://b.org/x\x1b\\http://b.org/x\x1b]8;;\x1b\\." in row
    for evil in ("[x](javascript:alert)", "[x](file:///etc/passwd)", "[x](https://a/%1b]8;;)"):
        [row] = render_block(Block(evil), 90, "none", links=True)
        assert "\x1b]8;;j" not in row
        assert "\x1b]8;;f" not in row
        assert without_escapes(row).isprintable()


def test_markup_the_renderer_would_drop_stays():
    assert shown("Use Vec<String> here") == ["Use Vec<String> here"]
    assert shown("<div>x</div>") == ["<div>x</div>"]
    assert shown("[ref]: http://example.org") == ["[ref]: http://example.org"]
    assert shown("![alt](a.png)") == ["![alt](a.png)"]
    assert shown("<https://example.org>") == ["https://example.org"]


def test_headings_stand_left_without_a_box():
    assert shown("# Title") == ["Title"]


def test_entities_and_percent_codes_can_not_smuggle_controls_in():
    for block in ("&#27;[2J &#x1b;]0;x&#7; &#155;2J", "<http://a/%1b[2J>", "[a](http://b/%1b%9b)"):
        for row in shown(block):
            assert row.isprintable()


@given(st.text(st.sampled_from("a *_[](){}<>!|#-=+~.1\n世\t&;\\:")), st.integers(20, 100))
def test_any_text_renders_within_the_width(text, width):
    for block in split(text):
        for row in render_block(block, width, "none"):
            assert block.kind == "code" or cells(row) <= width
