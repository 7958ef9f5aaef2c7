"""What is released: wheel and sdist can be built and installed, and work. Nothing is fetched: the
dependencies are those of the environment that runs the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import agentcli
from tests.conftest import LIMIT_S

ROOT = Path(__file__).parents[1]
NAME = f"agentcli-{agentcli.__version__}"
WHEEL, SDIST = f"{NAME}-py3-none-any.whl", f"{NAME}.tar.gz"
IN_WHEEL = (
    "agentcli/py.typed",
    "agentcli/cli/completion/agent.bash",
    "agentcli/cli/completion/agent.fish",
    "agentcli/cli/completion/agent.zsh",
    f"{NAME}.dist-info/licenses/LICENSE",
    f"{NAME}.data/data/share/man/man1/agent.1",
)
IN_SDIST = (
    *("LICENSE", "CHANGELOG.md", "README.md", "config.example.toml", "mkdocs.yml"),
    *("docs/index.md", "tests/conftest.py", ".ci/run"),
)

pytestmark = pytest.mark.campaign


def done(*command: str | Path, cwd: Path, **env: str) -> str:
    result = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": str(cwd), "LANG": "C.UTF-8", **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=5 * LIMIT_S,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The folder with both."""
    folder = tmp_path_factory.mktemp("dist")
    done(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


def test_both_have_what_belongs_to_them(built):
    assert {path.name for path in built.iterdir()} == {WHEEL, SDIST}
    wheel = zipfile.ZipFile(built / WHEEL).namelist()
    assert set(IN_WHEEL) <= set(wheel)
    assert {name.partition("/")[0] for name in wheel} <= {
        *("agentcli", f"{NAME}.dist-info", f"{NAME}.data")
    }
    with tarfile.open(built / SDIST) as sdist:
        assert {f"{NAME}/{name}" for name in IN_SDIST} <= set(sdist.getnames())


@pytest.mark.parametrize("package", [WHEEL, SDIST])
def test_the_demo_runs_where_it_is_installed(built, tmp_path, package):
    environment = tmp_path / "environment"
    done(sys.executable, "-m", "venv", environment, cwd=tmp_path)
    [packages] = environment.glob("lib/python*/site-packages")
    # Files of this kind in a folder that another one adds are not read: the agentcli of the tests
    # stays out.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = ("-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation")
    forced = ("--force-reinstall", "--ignore-installed")
    done(environment / "bin/python", *install, *forced, built / package, cwd=tmp_path)
    where = "import agentcli; print(agentcli.__file__)"
    assert str(packages) in done(environment / "bin/python", "-c", where, cwd=tmp_path)
    agent = environment / "bin" / "agent"
    assert done(agent, "--version", cwd=tmp_path).strip() == f"agent {agentcli.__version__}"
    told = done(agent, "demo", "--fast", cwd=tmp_path, AGENT_HOME=str(tmp_path / "state"))
    assert "OK" in told


def test_the_tests_of_the_sdist_are_collected(built, tmp_path):
    shutil.unpack_archive(built / SDIST, tmp_path)
    collected = ("--collect-only", "-q", "-n", "0", "-m", "campaign or not campaign")
    told = done(sys.executable, "-m", "pytest", *collected, cwd=tmp_path / NAME)
    assert "error" not in told.splitlines()[-1]


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="agentcli[docs] is not installed")
def test_the_site_is_built_without_a_warning(tmp_path):
    done(sys.executable, "-m", "mkdocs", "build", "--strict", "-d", tmp_path / "site", cwd=ROOT)
    assert (tmp_path / "site" / "tutorial" / "index.html").exists()
