"""Runs cells in a persistent namespace. Started as a script by any Python from 3.8 on.

Each line on descriptor 0 is JSON: the nonce of a request and the file with its code. Printed text
goes to the terminal and the output pipe between two marks, the outcome to the pipe named on the
command line.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import json
import linecache
import os
import signal
import sys
import traceback
import types
import warnings
from typing import Any

MARK = "\x1e"
MAX_FIGURES = 8
MAX_SIDE = 1900  # pixels; models take 2,000, and the tight box adds a margin
NO_INPUT = "input() cannot ask here: nobody types; put the value into the code"
FUTURE_FLAGS = 0
for _feature in __future__.all_feature_names:
    FUTURE_FLAGS |= getattr(__future__, _feature).compiler_flag


class Driver:
    def __init__(self, report_path: str) -> None:
        self.home = os.getpid()
        self.running = False
        self.flags = 0
        self.count = 0
        self.report_path = report_path
        self.lines = os.fdopen(os.dup(0), "r", encoding="utf-8")
        self.terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
        self.output = os.dup(1)
        self.driver_module = sys.modules["__main__"]
        self.module = types.ModuleType("__main__")
        self.module.__dict__["__builtins__"] = builtins

    def prepare(self) -> None:
        """Make this process look like a plain interpreter to the code it runs."""
        self.take_foreground()
        signal.signal(signal.SIGINT, self.interrupt)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for good
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(  # type: ignore[union-attr]
                encoding="utf-8", errors="backslashreplace", line_buffering=True
            )
        sys.modules["__main__"] = self.module
        sys.argv = [""]
        here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is slow
        others = [entry for entry in sys.path if os.path.abspath(entry) != here]  # noqa: PTH100
        sys.path[:] = ["", *others]
        builtins.input = refuse_input
        os.environ.setdefault("MPLBACKEND", "agg")
        warnings.filterwarnings("ignore", message=".*non-interactive, and thus cannot be shown.*")

    def take_foreground(self) -> None:
        """Make interrupts reach this process and its children, but no sandbox around it."""
        if os.getpgrp() == self.home:
            return
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.setpgid(0, 0)
        os.tcsetpgrp(self.terminal, self.home)
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)

    def interrupt(self, signum: int, frame: types.FrameType | None) -> None:
        if self.running and os.getpid() == self.home:
            raise KeyboardInterrupt

    def serve(self) -> None:
        for line in self.lines:
            request = json.loads(line)
            self.mark("B", request["nonce"])
            outcome = self.run(request)
            self.report(request["nonce"], outcome)

    def run(self, request: dict[str, str]) -> dict[str, Any]:
        if "code" not in request:
            return {}
        with open(request["code"], encoding="utf-8", newline="") as file:
            code = file.read()
        try:
            error = self.execute(code)
        except KeyboardInterrupt:
            error = True
        self.running = False
        if os.getpid() != self.home:
            # The code forked, and its child came back here, where it has nothing to do.
            sys.stdout.flush()
            os._exit(0)
        images = self.figures(request["images"])
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return {"error": error, "images": images}

    def execute(self, code: str) -> bool:
        """Run the code; return True if it raised."""
        self.count += 1
        name = f"<cell {self.count}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        try:
            self.running = True
            body, last = self.compile(code, name)
            exec(body, self.module.__dict__)
            if last is not None:
                sys.displayhook(eval(last, self.module.__dict__))
        except SystemExit as error:
            print(f"SystemExit: {error.code}", file=sys.stderr)
            return error.code not in (None, 0)
        except BaseException as error:
            self.running = False
            told = traceback.TracebackException(type(error), error, error.__traceback__)
            hide_own_frames(told)
            print("".join(told.format()), end="", file=sys.stderr)
            return True
        return False

    def compile(self, code: str, name: str) -> tuple[Any, Any]:
        """Return everything but a final expression, and that expression if its value is shown."""
        tree = compile(code, name, "exec", self.flags | ast.PyCF_ONLY_AST, True)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
            last = ast.Expression(tree.body.pop().value)
        body = compile(tree, name, "exec", self.flags, True)
        self.flags |= body.co_flags & FUTURE_FLAGS
        return body, last and compile(last, name, "eval", self.flags, True)

    def figures(self, prefix: str) -> list[str]:
        """Save what matplotlib has drawn, then close it."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return []
        paths = []
        try:
            for number in pyplot.get_fignums()[:MAX_FIGURES]:
                path = f"{prefix}{number}.png"
                figure = pyplot.figure(number)
                dpi = min(figure.dpi, MAX_SIDE / max(figure.get_size_inches()))
                figure.savefig(path, format="png", bbox_inches="tight", dpi=dpi)
                paths.append(path)
            pyplot.close("all")
        except Exception:
            # Saving runs code that the cell has put into its figures.
            traceback.print_exc(limit=0)
        return paths

    def mark(self, letter: str, nonce: str) -> None:
        for stream in (self.terminal, self.output):
            os.write(stream, f"{MARK}{letter}{nonce}{MARK}".encode())

    def report(self, nonce: str, outcome: dict[str, Any]) -> None:
        text = f"{MARK}R{nonce}:{json.dumps(outcome)}{MARK}"
        with open(self.report_path, "wb", buffering=0) as file:
            file.write(text.encode())
        self.mark("E", nonce)


def refuse_input(prompt: object = "") -> str:
    raise EOFError(NO_INPUT)


def hide_own_frames(told: traceback.TracebackException | None) -> None:
    if told is None:
        return
    told.stack[:] = [frame for frame in told.stack if frame.filename != __file__]
    for other in (told.__cause__, told.__context__, *(getattr(told, "exceptions", None) or ())):
        hide_own_frames(other)


if __name__ == "__main__":
    driver = Driver(sys.argv[1])
    driver.prepare()
    driver.serve()
