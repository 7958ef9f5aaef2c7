from agentcli.ui.screen import LiveRegion


def test_rows_are_replaced_in_place(fake_terminal):
    terminal = fake_terminal(20, 6)
    region = LiveRegion(terminal, 20)
    terminal.write("before\n")
    region.draw(["one", "two"])
    region.draw(["three"])
    assert terminal.text == "before\nthree"
    region.draw(["four", "five", "six"])
    region.draw([])
    assert terminal.text == "before"


def test_what_stays_goes_above(fake_terminal):
    terminal = fake_terminal(20, 6)
    region = LiveRegion(terminal, 20)
    region.draw(["live"])
    region.draw(["live still"], above="stays\n")
    assert terminal.text == "stays\nlive still"


def test_the_same_rows_are_not_written_again(fake_terminal):
    terminal = fake_terminal(20, 6)
    region = LiveRegion(terminal, 20)
    region.draw(["live"])
    region.draw(["live"])
    assert terminal.writes == 1


def test_wide_rows_are_cut(fake_terminal):
    terminal = fake_terminal(10, 6)
    LiveRegion(terminal, 10).draw(["\x1b[2m0123456789\x1b[0m", "世界世界世界"])
    assert terminal.text == "01234567…\n世界世界…"


def test_at_most_six_rows_are_ever_rewritten(fake_terminal):
    terminal = fake_terminal(80, 24)
    region = LiveRegion(terminal, 80)
    for count in (5, 60, 61, 8):
        region.draw([f"row {n}" for n in range(count)])
    assert terminal.text == "\n".join(f"row {n}" for n in range(2, 8))
    tiny = fake_terminal(80, 4)
    region = LiveRegion(tiny, 80)
    region._stream.lines = 4
    region.size = lambda: (80, 4)
    region.draw([f"row {n}" for n in range(9)])
    assert tiny.text == "row 6\nrow 7\nrow 8"


def test_a_window_made_narrower_leaves_nothing_of_what_was_there(fake_terminal):
    """The rows may have been wrapped by the terminal; the cursor is at their beginning."""
    terminal = fake_terminal(20, 8)
    region = LiveRegion(terminal, 20)
    terminal.write("before\n")
    region.draw(["0123456789abcdef", "0123456789abcdef"])
    assert (terminal.row, terminal.column) == (1, 0)
    terminal.columns = region._width = 10
    terminal.rows[1:] = ["0123456789", "abcdef", "0123456789", "abcdef"]
    region.draw(["0123456789abcdef", "0123456789abcdef"])
    assert terminal.text == "before\n01234567…\n01234567…"
    region.draw([])
    assert terminal.text == "before"


def test_after_a_stop_it_begins_anew_where_the_cursor_is(fake_terminal):
    terminal = fake_terminal(20, 8)
    region = LiveRegion(terminal, 20)
    region.draw(["one", "two"])
    terminal.write("\r\x1b[J$ fg\nagent run\n")
    region.resume()
    region.draw(["one", "two"])
    assert terminal.text == "$ fg\nagent run\none\ntwo"
