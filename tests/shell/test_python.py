"""The persistent interpreter against a real Python."""

from __future__ import annotations

import ast
import base64
import os
import sys
from pathlib import Path

import pytest

from agentcli.shell import python_driver
from agentcli.shell.python import PythonInterpreter
from agentcli.system import processes
from agentcli.system.programs import interpreter_of
from tests.shell.shells import around, make_python, needs_proc, until
from tests.workspace.test_images import png


def shown(python: PythonInterpreter, code: str) -> str:
    result = python.run(code)
    assert not result.error, result.output
    assert not result.notes
    return result.output


# Running


def test_prints_and_last_value(python: PythonInterpreter) -> None:
    assert shown(python, "x = 6\nprint('hey')\nx * 7") == "hey\n42\n"
    assert shown(python, "_ + x") == "48\n"
    assert shown(python, "x;") == ""
    assert shown(python, "None") == ""
    assert shown(python, "if True:\n    x = 7\n\nx") == "7\n"
    assert shown(python, "") == ""


def test_looks_like_a_plain_interpreter(python: PythonInterpreter, tmp_path: Path) -> None:
    assert shown(python, "import sys, os\n__name__, sys.argv, sys.path[0]") == (
        "('__main__', [''], '')\n"
    )
    assert shown(python, "print(os.getcwd())") == f"{tmp_path / 'work'}\n"
    (tmp_path / "work" / "mine.py").write_text("value = 3\n")
    assert shown(python, "import mine; mine.value") == "3\n"


def test_classes_can_be_pickled(python: PythonInterpreter) -> None:
    shown(python, "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int")
    assert shown(python, "import pickle\npickle.loads(pickle.dumps(A(3)))") == "A(x=3)\n"
    shown(python, "def f(): return 5")
    assert "return 5" in shown(python, "import inspect\nprint(inspect.getsource(f))")


def test_future_imports_last(python: PythonInterpreter) -> None:
    shown(python, "from __future__ import annotations")
    assert shown(python, "def f(a: Unknown): pass\nf.__annotations__") == "{'a': 'Unknown'}\n"


def test_traceback_shows_the_users_lines_only(python: PythonInterpreter) -> None:
    result = python.run("def f():\n    raise ValueError('bad')\nf()")
    assert result.error
    assert 'File "<cell 1>", line 2, in f' in result.output
    assert "raise ValueError('bad')" in result.output
    assert "ValueError: bad" in result.output
    assert "driver" not in result.output
    chained = python.run("try:\n    1/0\nexcept ZeroDivisionError:\n    f()")
    assert "During handling of the above exception" in chained.output
    assert "driver" not in chained.output


def test_syntax_error(python: PythonInterpreter) -> None:
    result = python.run("x = (1,\nprint(")
    assert result.error
    assert "SyntaxError" in result.output
    assert "Traceback" not in result.output


def test_input_fails_at_once_and_clearly(python: PythonInterpreter) -> None:
    result = python.run("input('name? ')")
    assert result.error
    assert result.output.splitlines()[-1].startswith("EOFError: input() cannot ask here")
    assert "driver" not in result.output
    assert shown(python, "import sys; sys.stdin.read()") == "''\n"


def test_system_exit_does_not_end_the_interpreter(python: PythonInterpreter) -> None:
    shown(python, "x = 1")
    assert python.run("import sys; sys.exit(4)").error
    assert not python.run("exit()").error
    assert shown(python, "x") == "1\n"


def test_output_of_child_processes_is_in_order(python: PythonInterpreter) -> None:
    code = "import subprocess\nprint(1)\nsubprocess.run(['echo', '2'])\nprint(3);"
    assert shown(python, code) == "1\n2\n3\n"


def test_forked_child_that_comes_back_is_ended(python: PythonInterpreter) -> None:
    python.run("import os\npid = os.fork()\nif pid: _ = os.waitpid(pid, 0)")
    assert shown(python, "1 + 1") == "2\n"


def test_foreign_characters(python: PythonInterpreter) -> None:
    assert shown(python, "print('é', '\ud800', chr(0xd800))") == "é \ufffd \\ud800\n"
    assert python.run("'a\0'").error
    assert shown(python, r"print('\x1b[31mred\x1b[0m\a\x00')") == "red␀\n"


def test_long_output_is_cut(tmp_path: Path) -> None:
    python = make_python(tmp_path, max_chars=1000)
    result = python.run("for i in range(10000): print(i)")
    python.close()
    assert result.truncated
    assert result.full_output_path is not None
    assert Path(result.full_output_path).read_text().count("\n") == 10_000


def test_live_output(python: PythonInterpreter) -> None:
    pieces: list[str] = []
    result = python.run("for i in range(1000): print(i)", on_output=pieces.append)
    assert "".join(pieces) == result.output


def test_figures(python: PythonInterpreter, tmp_path: Path) -> None:
    package = tmp_path / "work" / "matplotlib"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "pyplot.py").write_text(
        "import os\n"
        "open_figures = []\n"
        "class Figure:\n"
        "    dpi = 100\n"
        "    size = (6, 4)\n"
        "    def get_size_inches(self): return self.size\n"
        "    def savefig(self, path, **options):\n"
        "        assert options['dpi'] * max(self.size) <= 1900\n"
        "        assert os.environ['MPLBACKEND'] == 'agg'\n"
        f"        open(path, 'wb').write({png()!r})\n"
        "def plot(): open_figures.append(len(open_figures) + 1)\n"
        "def get_fignums(): return list(open_figures)\n"
        "def figure(number): return Figure()\n"
        "def close(which): open_figures.clear()\n"
    )
    assert python.run("1").images == ()
    result = python.run("from matplotlib import pyplot as plt\nplt.plot()\nplt.plot()")
    prefix = "data:image/png;base64,"
    contents = [base64.b64decode(image.removeprefix(prefix)) for image in result.images]
    assert contents == [png()] * 2
    assert python.run("1").images == ()
    assert python.run("plt.Figure.size = (60, 4)\nplt.plot()").error is False
    cut = f"lambda self, path, **_: open(path, 'wb').write({png()[:-4]!r}) and None"
    result = python.run(f"plt.Figure.savefig = {cut}\nplt.plot()")
    assert result.images == ()
    assert result.notes == ("figure 1 is cut off: a png image without its end",)
    shown(python, "def broken(n): raise OSError('no figure')\nplt.figure = broken; plt.plot()")
    assert "no figure" in python.run("plt.plot()").output


# Stopping


def test_timeout_keeps_the_state(python: PythonInterpreter) -> None:
    result = python.run("x = 1\nimport time\ntime.sleep(1000)", timeout=0.2)
    assert result.timed_out
    assert result.error
    assert result.output.endswith("KeyboardInterrupt\n")
    assert "driver" not in result.output
    assert shown(python, "x") == "1\n"


def test_timeout_of_a_child_process(python: PythonInterpreter) -> None:
    result = python.run("import subprocess\nsubprocess.run(['sleep', '1000'])", timeout=0.2)
    assert result.timed_out
    assert shown(python, "1") == "1\n"


def test_code_that_ignores_interrupts_is_killed(python: PythonInterpreter) -> None:
    code = (
        "import time\nprint('on')\nwhile True:\n"
        "    try: time.sleep(1000)\n    except KeyboardInterrupt: pass"
    )
    result = python.run(code, timeout=0.2)
    assert result.timed_out
    assert result.output == "on\n"
    assert "its variables are lost" in result.notes[-1]
    assert shown(python, "1") == "1\n"


def test_exception_in_a_callback_interrupts(python: PythonInterpreter) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    shown(python, "x = 1")
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            python.run("import time\nprint('a')\ntime.sleep(1000)", on_output=interrupt)
        assert python.last_result is not None
        assert python.last_result.output.startswith("a\n")
        assert python.last_result.notes == ("interrupted",)
    assert shown(python, "x") == "1\n"


def test_interrupt_between_cells_does_nothing(python: PythonInterpreter) -> None:
    pid = int(shown(python, "import os; os.getpid()"))
    os.kill(pid, 2)
    assert shown(python, "1") == "1\n"


@needs_proc
def test_waiting_for_the_terminal_is_ended(python: PythonInterpreter) -> None:
    result = python.run("import getpass; getpass.getpass()")
    assert result.error
    assert not result.timed_out
    assert "nobody can" in result.notes[0]
    assert shown(python, "1") == "1\n"


@pytest.mark.parametrize(
    ("code", "status"), [("import os; os._exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_interpreter_that_ends_is_replaced(
    python: PythonInterpreter, code: str, status: int
) -> None:
    result = python.run(f"print('before')\n{code}")
    assert (result.output, result.error) == ("before\n", True)
    assert f"status {status}" in result.notes[0]
    assert shown(python, "1") == "1\n"


@needs_proc
def test_close_leaves_no_process_behind(tmp_path: Path) -> None:
    python = make_python(tmp_path)
    python.run("import subprocess\nsubprocess.Popen(['setsid', 'sleep', '1000'])")
    mark = python.run("import os; print(os.environ['AGENT_SHELL_ID'])").output.strip()
    python.close()
    entry = f"{processes.ENVIRONMENT_MARK}={mark}"
    until(lambda: not processes.with_environment(entry))
    assert list((tmp_path / "scratch").iterdir()) == []


def test_late_output_is_told_apart(python: PythonInterpreter) -> None:
    shown(
        python,
        "import threading\ngo, done = threading.Event(), threading.Event()\n"
        "def late():\n    go.wait(); print('late'); done.set()\n"
        "threading.Thread(target=late, daemon=True).start()",
    )
    shown(python, "import signal; signal.signal(signal.SIGUSR1, lambda *_: go.set());")
    pid = int(shown(python, "import os; os.getpid()"))
    os.kill(pid, 10)
    result = python.run("done.wait(); print('now')")
    assert result.output.endswith("now\n")
    assert "late" in result.output or "late" in result.notes[0]


# Which interpreter


def test_interpreter_of_a_workspace(tmp_path: Path) -> None:
    def install(folder: Path, name: str = "python") -> str:
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / name).symlink_to(sys.executable)
        return str(folder / "bin" / name)

    workspace = tmp_path / "work"
    workspace.mkdir()
    assert Path(interpreter_of(workspace, {"PATH": ""})).parent == Path(sys.base_prefix, "bin")
    on_path = install(tmp_path / "usr", "python3")
    env = {"PATH": str(tmp_path / "usr" / "bin")}
    assert interpreter_of(workspace, env) == on_path
    plain = install(workspace / "venv")
    assert interpreter_of(workspace, env) == plain
    hidden = install(workspace / ".venv")
    assert interpreter_of(workspace, env) == hidden
    active = install(tmp_path / "active")
    assert interpreter_of(workspace, {**env, "VIRTUAL_ENV": str(tmp_path / "active")}) == active
    gone = {**env, "VIRTUAL_ENV": str(tmp_path / "gone")}
    assert interpreter_of(workspace, gone) == hidden


def test_interpreter_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    python = make_python(tmp_path, sandbox=around("sh", "-c", "echo broken; exit 9"))
    with pytest.raises(OSError, match="broken"):
        python.run("1")
    python.close()


def test_driver_is_written_for_python_3_8() -> None:
    source = Path(python_driver.__file__).read_text()
    tree = ast.parse(source, feature_version=(3, 8))
    imports = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert imports <= set(sys.stdlib_module_names)
