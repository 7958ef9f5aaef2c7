import subprocess
import sys
import warnings
from dataclasses import replace

import pytest

from agentcli.extensions import ExtensionPoint, ExtensionWarning

POINT = ExtensionPoint("parts", "PART", "agentcli.parts", str)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of the module path with a package `parts` that has two files, and one part."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("parts", "outside", "parts.own", "parts.base", "outside.module"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/__init__.py").write_text("")
    (tmp_path / "parts/base.py").write_text("")
    (tmp_path / "parts/own.py").write_text("PART = 'ours'")
    yield tmp_path
    for name in list(sys.modules):
        if name.partition(".")[0] in ("parts", "outside"):
            del sys.modules[name]


def install(site, package, entries, code="PART = 'theirs'", group="agentcli.parts"):
    (site / f"{package}.py").write_text(code)
    information = site / f"{package}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = {value}" for name, value in entries.items())
    (information / "entry_points.txt").write_text(f"[{group}]\n{lines}\n")


def test_a_file_with_the_constant_is_a_part(site):
    assert POINT.file_names() == ["base", "own"]
    assert "parts.own" not in sys.modules
    assert POINT.get("own") == "ours"
    assert "parts.base" not in sys.modules
    assert POINT.get("base") is None
    assert POINT.get("nothing") is None
    assert POINT.all() == {"own": "ours"}


def test_an_outside_package_adds_parts(site):
    install(site, "outside", {"another": "outside:PART"})
    install(site, "elsewhere", {"tool": "elsewhere:PART"}, group="agentcli.other")
    assert POINT.outside_names() == ["another"]
    assert "outside" not in sys.modules
    assert POINT.get("another") == "theirs"
    assert POINT.all() == {"own": "ours", "another": "theirs"}


@pytest.mark.parametrize(
    ("name", "value", "code", "reason"),
    [
        ("broken", "outside:PART", "import no_such_module", "ModuleNotFoundError: No module named"),
        ("broken", "outside:PART", "1 / 0", "ZeroDivisionError"),
        ("broken", "outside:PART", "raise SystemExit(3)", "SystemExit"),
        ("broken", "outside:PART", "", "AttributeError"),
        ("broken", "outside:PART", "PART = 3", "outside:PART is not a str"),
        ("broken", "not_there:PART", "", "not_there is not on the module path"),
        ("own", "outside:PART", "PART = 'theirs'", "that name is taken"),
        ("base", "outside:PART", "PART = 'theirs'", "that name is taken"),
    ],
)
def test_what_can_not_be_used_is_named_once_and_left_out(site, name, value, code, reason):
    install(site, "fine", {"another": "fine:PART"})
    install(site, "outside", {name: value}, code)
    with pytest.warns(ExtensionWarning) as told:
        assert POINT.all() == {"own": "ours", "another": "theirs"}
    assert [str(warning.message) for warning in told] == [str(told[0].message)]
    message = str(told[0].message)
    assert message.startswith(f"{name} of the package outside (agentcli.parts) is left out: ")
    assert reason in message
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert POINT.all() == {"own": "ours", "another": "theirs"}


@pytest.mark.parametrize("text", [b"[agentcli.parts]\nbroken\n", b"[agentcli.parts]\n\xff = x:y\n"])
def test_a_package_whose_entry_points_can_not_be_read_is_left_out(site, text):
    install(site, "outside", {"part": "outside:PART"})
    (site / "outside-1.0.dist-info/entry_points.txt").write_bytes(text)
    install(site, "fine", {"another": "fine:PART"})
    with pytest.warns(ExtensionWarning, match="package outside is left out: its entry"):
        assert POINT.outside_names() == ["another"]
    assert POINT.all() == {"own": "ours", "another": "theirs"}


def test_of_the_facts_about_a_package_nothing_is_needed(site):
    for package in ("one", "two"):
        install(site, package, {package: f"{package}:PART"})
        (site / f"{package}-1.0.dist-info/METADATA").unlink()
    install(site, "three", {"three": "three:NOTHING"})
    (site / "three-1.0.dist-info/METADATA").write_bytes(b"\xff")
    with pytest.warns(ExtensionWarning, match="three of the package three"):
        assert POINT.all() == {"own": "ours", "one": "theirs", "two": "theirs"}


def test_a_dash_stands_for_what_a_file_can_not_be_named(site):
    point = replace(POINT, dashed=True)
    (site / "parts/of_ours.py").write_text("PART = 'ours'")
    install(site, "outside", {"of-ours": "outside:PART", "my_own": "outside:PART"})
    assert point.get("of-ours") == "ours"
    assert point.get("of_ours") is None
    with pytest.warns(ExtensionWarning, match="of-ours .* that name is taken"):
        assert point.all() == {"of-ours": "ours", "own": "ours", "my_own": "theirs"}


def test_a_file_with_several_parts_takes_their_names_and_not_its_own(site):
    (site / "parts/shared.py").write_text("PART = {'one': '1', 'two': '2'}")
    point = replace(POINT, tables=True)
    (site / "parts/own.py").write_text("PART = {'own': 'ours'}")
    install(site, "outside", {"shared": "outside:PART", "two": "outside:PART"})
    with pytest.warns(ExtensionWarning, match="two .* that name is taken"):
        assert point.all() == {"one": "1", "own": "ours", "two": "2", "shared": "theirs"}
    assert point.get("shared") == "theirs"


def test_a_part_has_the_name_of_its_entry(site):
    code = "class Part(str):\n    name = 'other'\nPART = Part()"
    install(site, "outside", {"part": "outside:PART"}, code)
    with pytest.warns(ExtensionWarning, match="outside:PART calls itself 'other'"):
        assert POINT.get("part") is None


def test_a_package_counts_where_it_is_first(site, monkeypatch):
    later = site / "later"
    later.mkdir()
    install(site, "outside", {"another": "outside:PART"})
    install(later, "outside", {"another": "outside:OLD"})
    monkeypatch.setattr(sys, "path", [*sys.path, str(later), "relative", str(site / "no folder")])
    assert POINT.all() == {"own": "ours", "another": "theirs"}


def test_the_program_says_what_is_left_out():
    program = (
        "import warnings\n"
        "from agentcli.cli.entry import prepare_streams\n"
        "prepare_streams()\n"
        "warnings.warn('a part\\x1b[1m is left out')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr == "agent: warning: a part is left out\n"
