from agentcli.tools.write import diff
from agentcli.ui.outputs import Row, change_rows, diff_counts, diff_lines, diff_rows, number_width
from agentcli.ui.text import plain

DIFF = """\
--- a/x.py
+++ b/x.py
@@ -9,3 +9,4 @@ def f():
 same
-old
+new
+++more
 same
@@ -40 +41 @@
-\tlast
\\ No newline at end of file
+last
"""


def shown(diff):
    return [plain(line) for line in diff_lines(diff)]


def test_lines_have_the_number_they_have_in_the_file():
    assert shown(DIFF) == [
        " 9   same",
        "10 - old",
        "10 + new",
        "11 + ++more",
        "12   same",
        " ⋮",
        "40 - \tlast",
        "41 + last",
    ]
    assert diff_counts(DIFF) == (3, 2)


def test_a_diff_that_events_do_not_keep_whole_says_so():
    assert shown("@@ -0,0 +1,9 @@\n+1\n[diff cut]\n") == [
        "1 + 1",
        "⋮ the rest of this change is not kept",
    ]


def test_a_change_has_one_form_before_it_is_made_and_after():
    old = "".join(f"{n}\n" for n in range(1, 30))
    new = old.replace("5\n", "five\n", 1).replace("20\n", "")
    after = diff("a", old, new)
    rows = change_rows(old, new)
    assert rows == diff_rows(after)
    width = number_width(rows)
    assert [f"{row.mark(width)} {row.text}".rstrip() for row in rows] == shown(after)


def test_a_change_of_the_last_newline_alone_is_told():
    assert change_rows("a\n", "a") == [Row(0, "⋮", "no newline at the end")]
    assert change_rows("a", "a\n") == [Row(0, "⋮", "the last line gets a newline")]


def test_files_can_not_write_to_the_terminal():
    assert shown("@@ -1 +1 @@\n+\x1b]52;c;x\x07a\x1b[2Jb\r") == ["1 + ab"]


def test_no_diff_is_no_lines():
    assert shown("") == []
