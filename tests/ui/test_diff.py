from agentcli.ui.diff import diff_counts, diff_lines
from agentcli.ui.style import plain

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


def shown(diff, **options):
    return [plain(line) for line in diff_lines(diff, **options)]


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


def test_before_it_is_allowed_everything_in_it_is_made_visible():
    assert shown("@@ -1 +1 @@\n+a\r", visible=ascii) == ["1 + 'a\\r'"]


def test_files_can_not_write_to_the_terminal():
    assert shown("@@ -1 +1 @@\n+\x1b]52;c;x\x07a\x1b[2Jb\r") == ["1 + ab"]


def test_no_diff_is_no_lines():
    assert shown("") == []
