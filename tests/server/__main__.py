"""Runs the server as a process of its own: `python -m tests.server --script FILE.json`."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from .script import read_script
from .server import ModelServer


def main() -> None:
    """Serve until killed; say where on standard output, and in the port file if one is named."""
    parser = argparse.ArgumentParser(prog="python -m tests.server", description=__doc__)
    parser.add_argument("--script", type=Path, required=True, help="JSON list of replies")
    parser.add_argument("--port-file", type=Path, help="file to write the URL to")
    parser.add_argument("--loop", action="store_true", help="begin again after the last reply")
    parser.add_argument("--no-strict", action="store_true", help="answer without judging requests")
    options = parser.parse_args()
    server = ModelServer(
        read_script(options.script.read_text(encoding="utf-8")),
        strict=not options.no_strict,
        loop=options.loop,
        record=False,
        on_violation=lambda line: print(line, file=sys.stderr, flush=True),
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    with server:
        if options.port_file:
            _write_whole(options.port_file, server.url)
        print(server.url, flush=True)
        while True:
            signal.pause()


def _write_whole(path: Path, text: str) -> None:
    """Write so that a reader sees nothing or everything."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    main()
