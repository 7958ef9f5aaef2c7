"""Plant small faults and see whether the tests beside the code notice: `python -m tests.mutations`.

    pip install -e '.[mutation]'
    python -m tests.mutations sessions git          # these packages, 30 faults each
    python -m tests.mutations --number 5 --seed 7   # all packages

Cosmic Ray finds the places and makes the faults; only `tests/PACKAGE` is run against each, in a
copy of the tree. The same seed plants the same faults as long as the code is the same. Faults in
annotations, and those after which the parsed code is the same, are left out, since no test could
notice them. Survivors are printed; the exit code is 1 if fewer than 80 % are killed.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

ROOT = Path(__file__).parent.parent
WANTED = 0.8
LIMIT_S = 900
"""For one run of a package's tests; a fault that makes them wait for ever is noticed, too."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("packages", nargs="*")
    parser.add_argument("--number", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    packages = options.packages or sorted(
        path.name
        for path in (ROOT / "agentcli").iterdir()
        if (path / "__init__.py").exists() and (ROOT / "tests" / path.name).is_dir()
    )
    ratios = [run(name, options.number, options.seed) for name in packages]
    return int(min(ratios) < WANTED)


def run(package: str, number: int, seed: int) -> float:
    """Return how many of the faults planted in `package` its tests notice, from 0 to 1."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tree"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "*_cache"))
        if failed := failure(copy, package):
            sys.exit(f"the tests of {package} fail without a fault:\n{failed}")
        planted = faults(copy / "agentcli" / package, number, seed)
        survivors = 0
        for path, mutated in planted:
            if diff := survives(copy, package, path, mutated):
                survivors += 1
                print(diff, flush=True)
    ratio = 1 - survivors / max(len(planted), 1)
    print(f"{package}: {len(planted) - survivors} of {len(planted)} killed", flush=True)
    return ratio


def faults(folder: Path, number: int, seed: int) -> list[tuple[Path, str]]:
    """Up to `number` faults, each a file and its text with the fault: places at random, and at each
    place one fault at random, so that what can be mutated in many ways counts once."""
    chance = random.Random(seed)
    places: dict[tuple[Path, object], list[tuple[str, int]]] = {}
    for path in sorted(folder.rglob("*.py")):
        for place, name, occurrence in positions(path):
            places.setdefault((path, place), []).append((name, occurrence))
    found: list[tuple[Path, str]] = []
    for path, place in chance.sample(list(places), len(places)):
        name, occurrence = chance.choice(places[path, place])
        source = path.read_text()
        mutated = mutate_code(source, plugins.get_operator(name)(), occurrence)
        if mutated and meaning(mutated) != meaning(source):
            found.append((path, mutated))
        if len(found) == number:
            break
    return found


def positions(path: Path) -> Iterator[tuple[object, str, int]]:
    """Each place of a file where an operator can plant a fault: place, operator, occurrence."""
    nodes = list(ast_nodes(get_ast(path.read_text())))
    for name in plugins.operator_names():
        operator = plugins.get_operator(name)
        if operator.arguments() or name.endswith("/NoOp"):
            continue
        spans = (span for node in nodes for span in operator().mutation_positions(node))
        for occurrence, span in enumerate(spans):
            yield span, name, occurrence


def meaning(source: str) -> str:
    """The code without annotations and docstrings; empty if it is none."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            if getattr(node, field, None) is not None:
                setattr(node, field, ast.Constant(None))
    return ast.dump(tree)


def survives(copy: Path, package: str, path: Path, mutated: str) -> str:
    """Plant a fault, run the tests, and return the fault as a diff if none of them fails."""
    source = path.read_text()
    path.write_text(mutated)
    try:
        noticed = failure(copy, package)
    finally:
        path.write_text(source)
    if noticed:
        return ""
    name = str(path.relative_to(copy))
    diff = difflib.unified_diff(
        source.splitlines(), mutated.splitlines(), name, name, n=0, lineterm=""
    )
    return "\n".join(line for line in diff if not line.startswith("---"))


def failure(copy: Path, package: str) -> str:
    """What the tests of a package say if one fails, the last lines; empty if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", f"tests/{package}"]
    environ = os.environ | {"CI": "true", "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environ, capture_output=True, text=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return "did not end"
    return done.stdout[-2000:] if done.returncode else ""


if __name__ == "__main__":
    sys.exit(main())
