"""Where the agent's own programs come from, and what is left out of an environment for that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.system.programs import (
    UntrustedPlaces,
    find_on,
    find_program,
    installed_in,
    sanitize_environment,
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A workspace with a program, and ways to it from elsewhere."""
    for folder in ("work/.venv/bin", "safe/bin", "open", "sticky", "free"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in ("work/.venv/bin", "safe/bin", "open", "sticky"):
        program = tmp_path / folder / "tool"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "sticky").chmod(0o1777)
    (tmp_path / "link").symlink_to("work/.venv/bin")
    (tmp_path / "chain").symlink_to(tmp_path / "work/out")
    (tmp_path / "work/out").symlink_to(tmp_path / "safe/bin")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "free/tool").symlink_to("../work/.venv/bin/tool")
    return tmp_path


def of(tree: Path) -> UntrustedPlaces:
    return UntrustedPlaces().with_folders([str(tree / "work")])


@pytest.mark.parametrize(
    ("path", "held"),
    [
        ("work", True),
        ("work/.venv/bin", True),
        ("work/.venv/missing", True),
        ("link", True),
        ("link/tool", True),
        ("chain", True),
        ("chain/tool", True),
        ("free/tool", True),
        ("safe/../work", True),
        ("safe/bin", False),
        ("workshop", False),
        ("safe/missing", False),
        ("loop", False),
    ],
)
def test_a_place_is_held_by_whatever_name_and_whichever_way(tree, path, held):
    assert of(tree).hold(f"{tree}/{path}") is held


def test_a_place_is_held_by_the_view_of_a_process(tree, monkeypatch):
    monkeypatch.chdir(tree / "work")
    for path in ("/proc/self/cwd/.venv/bin", "/dev/fd/3", "/proc/1/root/usr/bin"):
        assert of(tree).hold(path)
    assert not of(tree).hold("/process/bin")


def test_no_program_is_taken_from_where_everybody_can_write(tree):
    places = of(tree)
    assert places.hold(f"{tree}/open/tool", as_program=True)
    assert places.hold(f"{tree}/sticky", as_program=True)
    assert not places.hold(f"{tree}/safe/bin/tool", as_program=True)
    assert not places.hold(f"{tree}/open/tool")


def test_who_works_at_the_root_still_has_programs(tree):
    for folder in ("/", "/usr", "/usr/bin/.."):
        assert not UntrustedPlaces().with_folders([folder]).hold("/usr/bin/env")


def test_an_environment_loses_what_leads_there_and_nothing_else(tree):
    work = tree / "work"
    environ = {
        "PATH": f"{work}/.venv/bin:/usr/bin::.:bin:{tree}/link:{tree}/safe/bin:/proc/self/cwd",
        "LD_PRELOAD": f"/usr/lib/a.so {work}/b.so",
        "LD_LIBRARY_PATH": f"{work}/lib",
        "PYTHONPATH": "src:/opt/python",
        "NODE_OPTIONS": f"--max-old-space-size=1 --require={work}/x.js",
        "RUBYOPT": "-r./x",
        "GIT_SSH_COMMAND": f"ssh -i {tree}/link/tool",
        "JAVA_TOOL_OPTIONS": f"-javaagent:{work}/x.jar",
        "CFLAGS": f"-I{work}/include -O2",
        "MAKEFLAGS": "-j4",
        "HTTPS_PROXY": "http://proxy:3128/x",
        "HOME": str(work),
        "SSL_CERT_FILE": f"{work}/ca.pem",
        "EDITOR": "vim",
        "LANG": "C.UTF-8",
    }
    got = sanitize_environment(environ, of(tree))
    assert got.environ == {
        "PATH": f"/usr/bin:{tree}/safe/bin",
        "LD_PRELOAD": "/usr/lib/a.so",
        "PYTHONPATH": "/opt/python",
        **{n: environ[n] for n in ("MAKEFLAGS", "HTTPS_PROXY", "HOME", "SSL_CERT_FILE", "EDITOR")},
        "LANG": "C.UTF-8",
    }
    assert got.left_out["PATH"] == (
        *(f"{work}/.venv/bin", "", ".", "bin", f"{tree}/link", "/proc/self/cwd"),
    )


def test_a_path_with_nothing_left_is_the_systems(tree):
    assert sanitize_environment({"PATH": f"{tree}/work:."}, of(tree)).environ == {
        "PATH": os.defpath
    }
    assert sanitize_environment({}, of(tree)).environ == {}


@given(st.dictionaries(st.sampled_from(["PATH", "PYTHONPATH", "X", "HOME", "GOFLAGS"]), st.text()))
def test_any_environment_can_be_trimmed(environ):
    got = sanitize_environment(environ, UntrustedPlaces().with_folders(["/nowhere/work"]))
    assert got.environ.keys() - {"PATH"} <= environ.keys()
    again = sanitize_environment(got.environ, UntrustedPlaces().with_folders(["/nowhere/work"]))
    assert again.environ == got.environ
    assert not again.left_out


PARTS = st.sampled_from(["work", "safe", "..", ".", "bin", "link", "", "chain"])


@given(st.lists(st.lists(PARTS, max_size=6), max_size=6))
def test_no_entry_of_path_leads_into_the_place(tmp_path_factory, entries):
    """Judged by where the system itself ends up."""
    tree = tmp_path_factory.getbasetemp() / "fixed"
    if not tree.exists():
        for folder in ("work/bin", "safe/bin"):
            (tree / folder).mkdir(parents=True)
        (tree / "link").symlink_to("work/bin")
        (tree / "safe/chain").symlink_to("../link/..")
        (tree / "work/chain").symlink_to("../safe")
    path = ":".join(f"{tree}/{'/'.join(parts)}" for parts in entries)
    places = UntrustedPlaces().with_folders([str(tree / "work")])
    for entry in sanitize_environment({"PATH": path}, places).environ["PATH"].split(":"):
        assert not Path(os.path.realpath(entry)).is_relative_to((tree / "work").resolve())


def test_a_program_is_found_where_commands_would_find_it_or_only_where_they_cannot_write(
    tree, monkeypatch
):
    path = f"{tree}/link:{tree}/safe/bin"
    assert find_on("tool", path) == f"{tree}/link/tool"
    assert find_on("tool", "/nowhere") is None
    program = (
        "import os, sys; from agentcli.system import programs\n"
        "programs.harden_process()\n"
        "print(programs.find_program('tool'), os.environ['PATH'])\n"
        f"print(programs.find_program({str(tree / 'work/.venv/bin/tool')!r}))\n"
        f"print(programs.find_program({str(tree / 'free/tool')!r}))\n"
        "print(programs.find_program('nothing-of-that-name'))\n"
        "print(programs.user_environ()['PATH'])"
    )
    path = f"{tree}/link:{tree}/open:{tree}/free:{tree}/sticky:.:{tree}/safe/bin"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tree / "work",
        env={**os.environ, "PATH": path, "HOME": str(tree)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        f"{tree}/safe/bin/tool {tree}/free:{tree}/safe/bin",
        *("None", "None", "None", path),
    ], done.stderr


def test_a_process_that_is_not_the_agents_is_left_as_it_is():
    before = dict(os.environ), list(sys.path)
    assert find_program("sh")
    assert (dict(os.environ), sys.path) == before


def test_what_this_process_is_loaded_from_is_found_within_roots(tmp_path):
    package = Path(__file__).parents[2] / "agentcli"
    assert str(package) in installed_in([package.parent])[0]
    assert installed_in([package]) == ([], [str(package)])
    assert installed_in([tmp_path]) == ([], [])
