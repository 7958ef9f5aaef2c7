"""The examples of docs/extending.md: a package in `fixtures` that is installed beside the agent."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import LIMIT_S
from tests.emulated import Emulated
from tests.server import Call, Reply

DOCUMENT = Path(__file__).parents[1] / "docs/extending.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
EXAMPLES = {
    text.split("\n")[0].removeprefix("# "): text for kind, text in BLOCKS if kind == "python"
}
PROJECT_FILE = next(text for kind, text in BLOCKS if kind == "toml")
PROJECT = tomllib.loads(PROJECT_FILE)["project"]
PACKAGE = Path(__file__).parent / "fixtures/agent-extras"


def install(site: Path, name: str, groups: dict[str, dict[str, str]]) -> None:
    information = site / f"{name.replace('-', '_')}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{entry} = {value}" for entry, value in entries.items())]
    (information / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture
def extended(agent, tmp_path):
    """The agent in an environment that has the package of the document, as installing it leaves
    it."""
    site = tmp_path / "site"
    shutil.copytree(PACKAGE / "agent_extras", site / "agent_extras")
    install(site, PROJECT["name"], PROJECT["entry-points"])
    agent.preloaded = False
    agent.env["PYTHONPATH"] = str(site)
    return agent


def test_the_package_is_that_of_the_document():
    files = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in _files()}
    assert files == {**EXAMPLES, "pyproject.toml": PROJECT_FILE, "agent_extras/__init__.py": ""}


def _files():
    return (path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc")


@pytest.mark.skipif(
    not (find_spec("pip") and find_spec("hatchling")),
    reason="pip and hatchling are not in this environment: pip install -e '.[test]'",
)
def test_the_package_is_installed_and_all_of_it_works(agent, serve, repository, tmp_path):
    site, copy = tmp_path / "site", tmp_path / "agent-extras"
    shutil.copytree(PACKAGE, copy)
    options = ["--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--no-compile"]
    pip = [sys.executable, "-m", "pip", "install", *options, "--target", str(site), str(copy)]
    subprocess.run(pip, check=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S)
    agent.preloaded = False
    steps = [Reply("", [Call("bash", {"command": f"echo {n}"})]) for n in range(20)]
    words = Reply("", [Call("words", {"path": "tally.py"})])
    server = serve([*steps, words, Reply("Counted.")], sessions=3)
    agent.env |= {"PYTHONPATH": str(site), "HOUSE_API_KEY": "key-of-the-house-0123456789"}
    provider = ("-m", "house", "--set", f'providers.house.base_url="{server.url}/v1"')
    done = agent("run", "how long is it?", *provider, "--set", 'memory.condenser="newest"')
    assert (done.stdout, done.returncode) == ("Counted.\n", 0), done.stderr
    assert "warning" not in done.stderr
    assert "[Older work is left out.]" in str(server.requests[-1].body)
    words = len((repository / "tally.py").read_text().split())
    assert f"{words} words" in str(server.requests[-1].body)
    exported = agent("sessions", "export", "--format", "calls").stdout
    assert re.fullmatch(r"how long is it\?\n(\d+\tbash\n){20}\d+\twords\n", exported), exported
    assert "how long is it?" in agent("tasks").stdout
    terminal = Emulated([*agent.command, "-c", *provider], agent.workspace, agent.environment)
    terminal.until("Shift-Tab")
    terminal.type("/said how\r")
    terminal.until(lambda rows: any(re.match(r"\d+  how long is it", row) for row in rows))
    terminal.close()


def test_every_example_is_short_and_entered():
    entered = {value for group in PROJECT["entry-points"].values() for value in group.values()}
    constants = ("TOOL", "PROVIDER", "CONDENSER", "EXPORTER", "COMMAND", "SLASH_COMMAND")
    defined = {
        f"{name.removesuffix('.py').replace('/', '.')}:{constant}"
        for name, text in EXAMPLES.items()
        for constant in constants
        if re.search(rf"^{constant} = ", text, re.MULTILINE)
    }
    assert entered == defined
    assert all(text.count("\n") < 30 for text in EXAMPLES.values())


def test_a_tool(extended, serve, repository):
    server = serve([Reply("", [Call("words", {"path": "tally.py"})]), Reply("Counted.")])
    extended.use(server)
    done = extended("run", "how long is it?")
    assert (done.stdout, done.returncode) == ("Counted.\n", 0), done.stderr
    words = len((repository / "tally.py").read_text().split())
    assert f"{words} words" in str(server.requests[1].body)


@pytest.mark.parametrize("rule", ["read(*.py)", "words(*.py)", "words"])
@pytest.mark.campaign
def test_a_tool_is_held_by_rules(extended, serve, repository, rule):
    server = serve([Reply("", [Call("words", {"path": "tally.py"})]), Reply("No.")])
    extended.use(server)
    done = extended("run", "how long is it?", "--set", f'security.deny=["{rule}"]')
    assert "denies it" in str(server.requests[1].body), done.stderr


def test_a_provider(extended, serve):
    server = serve([Reply("Two.")])
    extended.env |= {"HOUSE_API_KEY": "key-of-the-house-0123456789"}
    address = f'providers.house.base_url="{server.url}/v1"'
    done = extended("run", "what is 1 + 1?", "-m", "house", "--set", address)
    assert (done.stdout, done.returncode) == ("Two.\n", 0), done.stderr
    assert server.requests[0].body["model"] == "large"
    assert "key-of-the-house" in str(server.requests[0].headers)


def test_a_provider_that_names_no_wire_format_there_is(extended, tmp_path):
    code = "from agentcli.llm.provider import Provider\nPROVIDER = Provider('telepathy')\n"
    (tmp_path / "site/bare.py").write_text(code)
    install(tmp_path / "site", "bare", {"agentcli.providers": {"bare": "bare:PROVIDER"}})
    done = extended("run", "what is 1 + 1?", "-m", "bare/large")
    assert done.returncode == 3
    assert "the provider bare: there is no wire format 'telepathy'" in done.stderr


def test_a_condenser(extended, serve, repository):
    counts = [Reply(f"Step {n}.", [Call("bash", {"command": f"echo {n}"})]) for n in range(20)]
    server = serve([*counts, Reply("Counted.")], sessions=3)
    extended.use(server)
    done = extended("run", "count often", "--set", 'memory.condenser="newest"')
    assert (done.stdout, done.returncode) == ("Counted.\n", 0), done.stderr
    sent = str(server.requests[-1].body)
    assert "[Older work is left out.]" in sent
    assert "Step 0." not in sent
    assert "Step 19." in sent


def test_an_exporter(extended, serve, repository):
    extended.use(serve([Reply("", [Call("words", {"path": "tally.py"})]), Reply("Counted.")]))
    extended("run", "how long is it?")
    done = extended("sessions", "export", "--format", "calls")
    assert re.fullmatch(r"how long is it\?\n\d+\twords\n", done.stdout), done.stdout


def test_a_command(extended, serve):
    extended.use(serve([Reply("Two.")]))
    extended("run", "what is 1 + 1?")
    done = extended("tasks", "--most", "1")
    assert re.fullmatch(r"\S+  what is 1 \+ 1\?\n", done.stdout), done.stderr
    assert "What was asked for in the newest sessions." in extended("--help").stdout
    assert "--most" in extended("tasks", "--help").stdout


_ODD_PROTOCOL = """class Odd:
    def __init__(self, endpoint): ...
    def connect(self): ...
    def models(self):
        raise RuntimeError("no tally")
"""


def test_a_protocol_that_fails_in_its_own_way_hides_no_other_provider(agent, serve, tmp_path):
    site = tmp_path / "site"
    install(site, "odd", {"agentcli.protocols": {"odd": "odd:Odd"}})
    (site / "odd.py").write_text(_ODD_PROTOCOL)
    agent.preloaded = False
    agent.env["PYTHONPATH"] = str(site)
    agent.use(serve([]))
    agent.env["AGENT_CONFIG"] = str(tmp_path / "config.toml")
    settings = '[providers.house]\napi = "odd"\nbase_url = "http://127.0.0.1:9/v1"\n'
    (tmp_path / "config.toml").write_text(settings)
    done = agent("models")
    assert "house: RuntimeError: no tally" in done.stderr
    assert done.returncode == 0, done.stderr
    assert "openai/" in done.stdout


_ENDINGS = """import sys
import typer

def end(how: str) -> None:
    \"\"\"Ends in one way or another.\"\"\"
    if how == "fails":
        raise typer.BadParameter.__mro__[2]("no tally")
    sys.exit({"none": None, "code": 3}.get(how, how))
"""


def test_a_slash_command(extended, serve):
    extended.use(serve([Reply("One."), Reply("Two.")]))
    terminal = Emulated([*extended.command, "begin here"], extended.workspace, extended.environment)
    terminal.until("done in")
    terminal.type("/sai").until("What you said so far")
    terminal.type("d here\r").until(
        lambda rows: any(re.match(r"\d+  begin here", row) for row in rows)
    )
    terminal.close()


@pytest.mark.campaign
def test_a_command_may_end_as_a_program_does(agent, tmp_path):
    site = tmp_path / "site"
    install(site, "ending", {"agentcli.commands": {"house.end": "ending:end", "gone": "gone:it"}})
    (site / "ending.py").write_text(_ENDINGS)
    agent.preloaded = False
    agent.env["PYTHONPATH"] = str(site)
    told = {how: agent("house.end", how) for how in ("none", "code", "in words", "fails")}
    codes = {how: done.returncode for how, done in told.items()}
    assert codes == {"none": 0, "code": 3, "in words": 1, "fails": 1}
    assert "in words" in told["in words"].stderr
    assert "no tally" in told["fails"].stderr
    listed = agent("--help")
    assert re.search(r"house\.end +Ends in one way or another", listed.stdout), listed.stderr
    assert not re.search(r"^ +gone", listed.stdout, re.MULTILINE)
    assert "gone of the package ending" in listed.stderr


@pytest.mark.campaign
def test_a_broken_package_is_named_once_and_the_rest_works(extended, serve, repository, tmp_path):
    (tmp_path / "site/broken.py").write_text("import no_such_module\n")
    entries = {"agentcli.tools": {"odd": "broken:TOOL", "grep": "agent_extras.words:TOOL"}}
    install(tmp_path / "site", "broken-package", entries)
    server = serve([Reply("", [Call("words", {"path": "tally.py"})]), Reply("Counted.")])
    extended.use(server)
    done = extended("run", "how long is it?")
    assert done.stdout == "Counted.\n"
    told = [line for line in done.stderr.splitlines() if "broken-package" in line]
    assert len(told) == 2, done.stderr
    assert "warning: odd of the package broken-package" in told[0]
    assert "no_such_module" in told[0]
    assert "that name is taken" in told[1]


def test_a_damaged_package_is_named_and_the_rest_works(extended, serve, repository, tmp_path):
    install(tmp_path / "site", "damaged", {"agentcli.tools": {}})
    (tmp_path / "site/damaged-1.0.dist-info/entry_points.txt").write_text("[agentcli.tools]\nodd\n")
    server = serve([Reply("", [Call("words", {"path": "tally.py"})]), Reply("Counted.")])
    extended.use(server)
    done = extended("run", "how long is it?")
    assert done.stdout == "Counted.\n"
    assert done.stderr.count("warning: the package damaged is left out: its entry points") == 1


def test_nothing_is_loaded_from_where_commands_can_write(agent, serve, tmp_path):
    install(agent.workspace, "planted", {"agentcli.tools": {"planted": "planted:TOOL"}})
    (agent.workspace / "planted.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    agent.preloaded = False
    agent.env["PYTHONPATH"] = str(agent.workspace)
    agent.use(serve([Reply("Two.")]))
    assert agent("run", "what is 1 + 1?").stdout == "Two.\n"
    assert not (tmp_path / "ran").exists()
