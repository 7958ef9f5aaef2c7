from agentcli.ui.live import LiveRegion


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


def test_it_never_grows_taller_than_the_terminal(fake_terminal, monkeypatch):
    terminal = fake_terminal(80, 24)
    region = LiveRegion(terminal, 80)
    for count in (5, 60, 61, 3):
        region.draw([f"row {n}" for n in range(count)])
    assert terminal.text == "row 0\nrow 1\nrow 2"


def test_a_window_made_narrower_loses_nothing_that_stays(fake_terminal):
    terminal = fake_terminal(20, 8)
    region = LiveRegion(terminal, 20)
    terminal.write("before\n")
    region.draw(["0123456789abcdef", "0123456789abcdef"])
    terminal.columns = region._width = 10
    terminal.rows[1:] = ["0123456789", "abcdef", "0123456789", "abcdef"]
    for cursor in (3, 4):
        terminal.row = cursor
        region.draw([])
        assert terminal.text.startswith("before\n0123456789")
