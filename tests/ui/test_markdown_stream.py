from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agentcli.ui.markdown_stream import BlockSplitter, render_markdown
from agentcli.ui.style import bare, cells

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
    "# Title",
    "A paragraph\nover two lines.",
    "- one\n\n  still one\n- two\n  ```sh\n  echo in a list\n\n  ```\n\n1. first",
    "```python\nx = 1\n\n# not a heading\n```",
    "| a | b |\n|---|---|\n| 1 | 2 |",
]


def split(*pieces):
    splitter = BlockSplitter()
    blocks = []
    for piece in pieces:
        blocks += splitter.feed(piece)
    return blocks + splitter.finish()


def shown(block, width=60):
    return [bare(row) for row in render_markdown(block, width, "full")]


@given(st.lists(st.integers(0, len(TEXT))))
def test_blocks_do_not_depend_on_how_the_text_arrives(cuts):
    edges = [0, *sorted(cuts), len(TEXT)]
    pieces = [TEXT[a:b] for a, b in pairwise(edges)]
    assert split(*pieces) == BLOCKS


@given(st.text(st.sampled_from("ab`~#-*1.>| \n")))
def test_no_line_is_lost_or_moved(text):
    words = [line for line in text.split("\n") if line.strip()]
    assert [line for line in "\n".join(split(text)).split("\n") if line.strip()] == words


def test_a_block_is_complete_as_soon_as_it_is_certain():
    splitter = BlockSplitter()
    assert splitter.feed("Some text") == []
    assert splitter.open == "Some text"
    assert splitter.feed(".\n\n") == ["Some text."]
    assert splitter.feed("```\ncode\n\n") == []
    assert splitter.feed("```\n") == ["```\ncode\n\n```"]


def test_the_preview_of_a_long_fence_is_its_end_and_still_a_fence():
    splitter = BlockSplitter()
    splitter.feed("```python\n" + "".join(f"line{n}\n" for n in range(500)) + "la")
    lines = splitter.open.split("\n")
    assert len(lines) < 100
    assert (lines[0], lines[-1]) == ("```", "la")


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


@given(st.text(st.sampled_from("a `*_[](){}<>!|#-=+~.1\n世\t&;\\:")), st.integers(20, 100))
def test_any_text_renders_within_the_width(text, width):
    for block in split(text):
        for row in render_markdown(block, width, "none"):
            assert cells(row) <= width
