"""What contained commands do to variables reaches no command that can do more than they; secrets
among variables reach no record."""

from __future__ import annotations

import re

import pytest

from tests.attacks.raids import ALL_RIGHTS, Arena, bash, every_layer
from tests.sandbox.sandboxes import LAYERS
from tests.server import Call, Reply

LOADERS = """
    PATH LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT GCONV_PATH BASH_ENV ENV PROMPT_COMMAND PYTHONPATH
    PYTHONSTARTUP PYTHONHOME PYTHONWARNINGS PYTHONBREAKPOINT NODE_OPTIONS NODE_PATH PERL5LIB
    PERL5OPT PERL5DB RUBYLIB RUBYOPT GEM_HOME BUNDLE_GEMFILE JAVA_TOOL_OPTIONS CLASSPATH MAVEN_OPTS
    GRADLE_USER_HOME LUA_INIT LUA_PATH PHPRC PHP_INI_SCAN_DIR GOFLAGS CARGO_HOME RUSTC_WRAPPER CC
    MAKEFLAGS CMAKE_TOOLCHAIN_FILE GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_CONFIG_GLOBAL
    GIT_EXEC_PATH GIT_DIR GIT_PROXY_COMMAND GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS GNUPGHOME WGETRC
    CURL_HOME APT_CONFIG RSYNC_RSH RSYNC_CONNECT_PROG CVS_RSH PYTEST_ADDOPTS PYTEST_PLUGINS
    NPM_CONFIG_USERCONFIG PIP_CONFIG_FILE UV_CONFIG_FILE DOCKER_CONFIG KUBECONFIG AWS_CONFIG_FILE
    ANSIBLE_CONFIG TF_CLI_CONFIG_FILE VIMINIT EXINIT EDITOR PAGER MANPAGER LESSOPEN LESSKEY BROWSER
    TAR_OPTIONS RIPGREP_CONFIG_PATH GREP_OPTIONS OPENSSL_CONF TERMINFO HOME XDG_CONFIG_HOME ZDOTDIR
    MAILCAPS GDBINIT SQLITE_HISTORY SCREENRC INPUTRC SYSTEMD_EDITOR POSTGRES_PLAIN PLAIN_SETTING
""".split()  # noqa: SIM905
"""By which programs load code, or look for their settings, which name code. And two of nobody."""
POISON = "poisoned-value"


def exporting(names: list[str]) -> str:
    """All of them with one word, but for those that bash needs: set last, and the shell stays."""
    return "; ".join(f"export {name}=/poison/{POISON}" for name in names)


def shown(told: str) -> dict[str, str]:
    """Variables by `env -0 | tr`."""
    return dict(line.partition("=")[::2] for line in told.splitlines() if "=" in line)


SHOW = "/usr/bin/env"


@pytest.mark.own_start
@every_layer
def test_no_variable_leaves_the_sandbox(arena, layer):
    assert len(LOADERS) >= 63
    place = arena(layer)
    calls = [
        bash(exporting(LOADERS)),
        bash(SHOW, **ALL_RIGHTS),
        bash(SHOW),
        bash("export CI=true TZ=Europe/Berlin LC_TIME=C"),
        bash(SHOW, **ALL_RIGHTS),
    ]
    run = place.does(calls, "--yolo")
    assert run.exit_code == 0
    output, _, notes = run.told[1].partition("\n[")
    assert POISON not in output
    told = set(re.findall(r"\w+", notes.partition("not passed on")[2]))
    bashs_own = {"PROMPT_COMMAND", "BASH_ENV"}
    assert set(LOADERS) - bashs_own <= told, "and the model is told which"
    inside = shown(run.told[2])
    kept = [name for name in LOADERS if POISON not in inside.get(name, "")]
    assert set(kept) <= bashs_own | {"LESSOPEN"}, "inside they stay"
    last = shown(run.told[4])
    assert (last["CI"], last["TZ"], last["LC_TIME"]) == ("true", "Europe/Berlin", "C")


WEAKER = [(a, b) for a in LAYERS for b in ("landlock", "none") if a != b and b in [*LAYERS, "none"]]


@pytest.mark.parametrize(("layer", "weaker"), WEAKER)
def test_none_is_brought_back_into_a_weaker_layer(arena, layer, weaker):
    place = arena(layer)
    (place.workspace / "evil").mkdir()
    fake = place.workspace / "evil" / "ls"
    fake.write_text(f"#!/bin/sh\n: > {place.outside}/ran\necho fake\n")
    fake.chmod(0o755)
    first = f"export PATH=$PWD/evil:$PATH CI=1; {exporting(LOADERS[1:])}; cd evil"
    place.does([bash(first)], "--yolo")
    place.layer = weaker
    flags = ["--no-sandbox"] if weaker == "none" else []
    calls = [bash(command) for command in ("ls", "pwd", SHOW)]
    run = place.run_as(
        ["resume", "--last", "go on"], [Reply("", calls), Reply("Done.")], "--yolo", *flags
    )
    assert "fake" not in run.told[-3]
    assert "first" in run.told[-3]
    assert not (place.outside / "ran").exists()
    assert "not restored" in run.told[-3]
    assert "WGETRC" in run.told[-3]
    assert run.told[-2].splitlines()[0] == str(place.workspace), "nor the folder it was in"
    assert POISON not in run.told[-1]
    assert shown(run.told[-1])["CI"] == "1"


@every_layer
def test_what_a_command_with_all_rights_exported_comes_back_everywhere(arena, layer):
    place = arena(layer)
    call = bash("export MY_SETTING=by-approval", **ALL_RIGHTS)
    later = [bash("echo $MY_SETTING")]
    later += [bash("echo $MY_SETTING", **ALL_RIGHTS)]
    run = place.run([Reply("", [call]), Reply("", later), Reply("Done.")], "--yolo")
    assert [told.splitlines()[0] for told in run.told[1:]] == ["by-approval"] * 2
    place.layer = "none"
    run = place.run_as(
        ["resume", "--last", "go on"], [Reply("", later), Reply("Done.")], "--no-sandbox", "--yolo"
    )
    assert run.told[-1].splitlines()[0] == "by-approval"


@every_layer
def test_a_command_that_was_left_waiting_passes_nothing_on_as_anothers(arena, layer):
    """Stopped by the next command, which has all rights: its exports are still its own."""
    place = arena(layer)
    calls = [
        bash(f"export WGETRC={POISON}; read x </dev/tty"),
        bash("echo ${WGETRC-unset}", **ALL_RIGHTS),
    ]
    run = place.does(calls, "--yolo")
    assert run.told[1].startswith("unset\n")
    place.layer = "none"
    calls = [bash("echo ${WGETRC-unset}")]
    run = place.run_as(
        ["resume", "--last", "go on"], [Reply("", calls), Reply("Done.")], "--no-sandbox", "--yolo"
    )
    assert run.told[-1].startswith("unset\n")


# Secrets


ENV_FILE = {
    "DB_PASS": "tr0ub4dor&3",
    "SENTRY_DSN": "https://0a1b2c3d4e5f@o7.ingest.example.org/12",
    "APP_COOKIE": "c00kie-m0nster-value",
    "REDIS": "redis://:hunter2hunter2@localhost:6379",
    "STRIPE": "sk_live_" + "a1B2" * 6,
    "DJANGO_SECRET_KEY": "django-insecure-abc",
    "MAIL_PW": "mailpw",
    "ORDINARY": "plain-value",
}


def records(place: Arena) -> str:
    state = place.home / "state" / "sessions"
    files = [path for path in state.rglob("*") if path.is_file() and "earlier" not in str(path)]
    kept = (path for path in files if "/checkpoints/" not in str(path))
    return "".join(path.read_bytes().decode(errors="replace") for path in kept)


@every_layer
def test_an_env_file_that_is_sourced_leaves_no_secret_in_the_record(arena, layer):
    place = arena(layer)
    text = "".join(f"{name}='{value}'\n" for name, value in ENV_FILE.items())
    (place.workspace / ".env").write_text(text)
    calls = [bash("set -a; . ./.env")]
    place.does(calls)
    found = records(place)
    assert "plain-value" in found
    assert [n for n, value in ENV_FILE.items() if n != "ORDINARY" and value in found] == []
    calls = [bash("echo $ORDINARY")]
    run = place.run_as(["resume", "--last", "go on"], [Reply("", calls), Reply("Done.")])
    assert run.told[-1].startswith("plain-value\n")
    assert "not restored: APP_COOKIE, DB_PASS" in run.told[-1]


@pytest.mark.own_start
@every_layer
def test_a_token_of_the_persons_environment_is_masked_everywhere(arena, layer):
    place = arena(layer)
    token = "kP9vQ2xL7mN4wZ8r"
    ordinary = {"GITEA_TOKEN": "true", "OTHER_PASSWORD": "postgres", "KEY_FILE": "/etc/hosts"}
    place.agent.env |= {"INTERNAL_TOKEN": token, **ordinary}
    (place.workspace / "notes").write_text(f"the token is {token}, true, postgres, /etc/hosts\n")
    calls = [
        bash("cat notes; base64 -w0 notes"),
        Call("read", {"path": "notes"}),
        bash(f"curl -H 'X: {token}' http://127.0.0.1:1/"),
    ]
    run = place.run([Reply(f"I use {token}.", calls), Reply(f"Done with {token}.")], "-v")
    assert token not in run.stdout + run.stderr
    assert token not in records(place)
    assert all(token not in str(request.body) for request in run.requests[1:])
    assert "[redacted], true, postgres, /etc/hosts" in run.told[0]
    for name in ("log", "state/log"):
        path = place.home / name
        assert not path.exists() or token not in path.read_text()
