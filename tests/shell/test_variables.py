"""Exported variables as bash lists them, what of them is recorded, and what comes back."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.security.redact import MASK, Redactor
from agentcli.shell.bash_lines import MAY_EXPORT, start_lines
from agentcli.shell.variables import (
    WITHHELD,
    Exports,
    ExportWatch,
    parse_listing,
    restorable,
    storable,
)
from tests.shell.shells import exported

NAMES = st.sampled_from(["V_A", "V_B", "V_C", "V_D"])
VALUES = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    st.text(st.sampled_from("a'\"\\$`!\n\t \x1e\x7f=é\N{ROCKET};)(")),
)
ENVIRONMENTS = st.dictionaries(NAMES, VALUES)
SOME = settings(max_examples=40)


def bash(script: bytes, env: dict[str, str]) -> bytes:
    """What bash writes that runs `script`, given on its stdin."""
    argv = ["bash", "--noprofile", "--norc", "-s"]
    given = {"PATH": "/usr/local/bin:/usr/bin:/bin", **env}
    return subprocess.run(argv, input=script, env=given, capture_output=True, timeout=30).stdout


def environment(output: bytes) -> dict[str, str]:
    """The variables of these tests in what `env -0` wrote."""
    entries = (entry.partition("=") for entry in output.decode().split("\0"))
    return {name: value for name, _, value in entries if name.startswith("V_")}


# Listings


@pytest.mark.parametrize("mode", [b"", b"set -o posix\n"], ids=["bash", "posix"])
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@SOME
@given(variables=ENVIRONMENTS)
def test_a_listing_gives_the_values_back(mode, locale, variables):
    listing = bash(mode + b"export -p\n", {**variables, "LC_ALL": locale})
    found = parse_listing(listing)
    assert {name: found[name] for name in found if name.startswith("V_")} == variables


def test_only_what_programs_find_in_their_environment_counts():
    script = rb"""
        export V_UNSET V_EMPTY= V_TEXT='declare -x V_NONE="1"
declare -x V_NONE="2"'
        declare -ax V_LIST=(1 2); declare -nx V_NAME=V_TEXT; declare -irx V_NUMBER=4
        f() { :; }; export -f f; V_LOCAL=1; export PS1=x PROMPT_COMMAND=y BASH_ENV=z SHELLOPTS
        export AGENT_SHELL_ID=1 AGENT_SESSION_ID=2 _agent_status=3 COLUMNS=4 PSQL=kept; cd /
        export -p
    """
    found = parse_listing(bash(script, {}))
    del found["PATH"]
    text = 'declare -x V_NONE="1"\ndeclare -x V_NONE="2"'
    assert found == {"V_EMPTY": "", "V_TEXT": text, "V_NUMBER": "4", "PSQL": "kept"}


def test_bytes_that_are_not_text_are_kept_apart():
    found = parse_listing(bash(rb"export V=$'\xff'; export -p", {}))
    assert found["V"] == "\udcff"
    assert storable(found | {"W": "é"}).keys() == found.keys() - {"V"} | {"W"}


@given(st.binary())
def test_any_listing_can_be_read(listing):
    parse_listing(b"declare -x A=" + listing + b'\ndeclare -x B="' + listing)


def listing_of(variables: dict[str, str]) -> bytes:
    return "".join(f'declare -x {name}="{value}"\n' for name, value in variables.items()).encode()


def test_changes_are_those_since_the_listing_before():
    watch = ExportWatch()
    assert watch.changes(listing_of({"A": "1", "B": "1"})) == {}
    second = listing_of({"A": "2", "C": "1", "OLDPWD": "/"})
    assert watch.changes(second) == {"A": "2", "B": None, "C": "1"}
    assert watch.changes(second) == {}
    assert watch.changes(b"") == {}
    assert watch.changes(listing_of({"A": "2"})) == {"C": None}


@given(st.lists(st.dictionaries(NAMES, st.text("xyz")), min_size=1))
def test_changes_of_all_commands_lead_from_the_first_state_to_the_last(states):
    watch = ExportWatch()
    states = [{**state, "V_ALWAYS": "1"} for state in states]
    changes = [watch.changes(listing_of(state)) for state in states]
    now = {**states[0], **exported(*changes).inside("none", {})}
    assert {name: value for name, value in now.items() if value is not None} == states[-1]


# Records


def test_what_is_too_large_is_not_recorded():
    assert storable({"A": "x" * 32_768, "B": "x" * 32_769, "C": "é" * 20_000}).keys() == {"A"}
    many: dict[str, str | None] = {f"V{n}": "1" for n in range(200)}
    assert storable(many) == many
    assert storable({**many, "ONE_MORE": None}) == {}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "API_KEY",
            "MY_APIKEY",
            "CI_TOKEN",
            "TOKEN_FILE",
            "PGPASSWORD",
            "MYSQL_PWD",
            "App_Secret",
        ),
        *("DB_PASS", "SENTRY_DSN", "APP_COOKIE", "DBPASS", "PIN", "JWT", "AZURE_STORAGE_CONN_STR"),
    ],
)
def test_a_value_that_is_secret_by_its_name_is_withheld(name):
    stored = storable({name: "value", "A": "1"})
    assert stored == {name: WITHHELD, "A": "1"}
    assert restorable(stored, MASK) == ({"A": "1"}, (name,))
    assert storable({name: None}) == {name: None}
    assert storable({name: ""}) == {name: ""}


@pytest.mark.parametrize(
    "name",
    [
        *("TOKENIZERS_PARALLELISM", "KEYBOARD", "PASSIVE", "OLDPWD", "SSH_ASKPASS", "AUTHOR"),
        *("GIT_AUTHOR_NAME", "PYTHONHASHSEED", "PATTERN", "SPINNER", "COMPASSION"),
    ],
)
def test_a_harmless_name_is_not_taken_for_a_secret(name):
    assert storable({name: "1"}) == {name: "1"}


def test_a_value_that_the_record_masks_is_named_instead_of_restored():
    assert WITHHELD == MASK
    secret = "sk-" + "x" * 30
    stored = Redactor()(storable({"URL": f"https://h/?k={secret}", "GONE": None, "A": "1"}))
    assert restorable(stored, MASK) == ({"GONE": None, "A": "1"}, ("URL",))


def test_a_record_of_foreign_make_restores_only_what_can_be():
    exports = {
        "A;touch x": "1",
        "B C": None,
        "É": "1",
        "LONE": "\ud800",
        "ZERO": "a\0b",
        "AGENT_SHELL_ID": "mine",
        "BASH_ENV": "/tmp/x",
        "GOOD": "$(touch x)",
    }
    assert restorable(exports, MASK) == ({"GOOD": "$(touch x)"}, ())


# Where they may go

LAYERS = st.sampled_from(["bubblewrap", "landlock", "seatbelt", "none", ""])
HARMLESS = {
    "CI": "true",
    "NO_COLOR": "1",
    "FORCE_COLOR": "3",
    "LANG": "en_US.UTF-8",
    "LC_ALL": "C",
    "TZ": "America/Argentina/Buenos_Aires",
}


@given(st.lists(st.tuples(st.dictionaries(NAMES, st.none() | st.text("xyz/")), LAYERS)), LAYERS)
def test_nothing_that_commands_set_goes_where_commands_can_do_more(changes, layer):
    exports = Exports()
    for change, origin in changes:
        exports.add(change, origin)
    may = {"none": {"none"}, "landlock": {"none", "landlock"}, "seatbelt": {"none", "seatbelt"}}
    may |= {"bubblewrap": {"none", "landlock", "bubblewrap"}, "": {"", "none"}}
    wanted: dict[str, str | None] = {}
    last: dict[str, str | None] = {}
    for change, origin in changes:
        wanted |= change if origin in may[layer] else {}
        last |= change
    assert exports.inside(layer, {}) == wanted
    own = {"V_A": "own"}
    told = set(exports.withheld(layer, own))
    assert told == {n for n, value in last.items() if value != wanted.get(n, own.get(n))}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_changes_how_output_looks_may_go_anywhere(name):
    exports = exported({name: HARMLESS[name]}, layer="bubblewrap")
    assert exports.inside("none", {}) == {name: HARMLESS[name]}
    for value in ("/w/evil", "../x", ":/w/evil", "$(touch x)", "a b", "x\n", None):
        odd = exported({name: value}, layer="bubblewrap")
        assert (odd.inside("none", {}), odd.withheld("none", {name: "1"})) == ({}, (name,))


def test_what_the_person_has_anyway_is_not_told():
    exports = exported({"V_A": "same", "V_B": "other"}, layer="bubblewrap")
    assert exports.withheld("none", {"V_A": "same"}) == ("V_B",)


# The start of a shell


@SOME
@given(before=ENVIRONMENTS, exports=st.dictionaries(NAMES, st.none() | VALUES))
def test_a_shell_starts_with_the_exports(before, exports):
    script = start_lines(exports) + b"env -0\n"
    wanted = {**before, **exports}
    found = environment(bash(script, before))
    assert found == {name: value for name, value in wanted.items() if value is not None}


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        (b"A=1", True),
        (b"cd x && . .venv/bin/activate", True),
        (b"source env", True),
        (b"unset A", True),
        (b"ls -l; make ./all", False),
        (b"grep exported notes.txt", False),
    ],
)
def test_commands_that_look_as_if_they_changed_variables(command, seen):
    assert (MAY_EXPORT.search(command) is not None) is seen
