"""Which commands of a script look like tests, and when an exit code is that of the tests."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.evidence.runners import is_test_file
from agentcli.evidence.scripts import outcome_of
from agentcli.evidence.scripts import tests_in as read

LOOKS_LIKE_TESTS = {
    "pytest": "pytest",
    "python3.12 -m pytest -x tests/unit": "pytest",
    ".venv/bin/python -W error -m pytest": "pytest",
    "python -m unittest discover -s tests": "unittest",
    "uv run --with pytest-cov -- pytest -q": "pytest",
    "poetry run python -m pytest": "pytest",
    "timeout 60 env CI=1 nice -n 5 pytest": "pytest",
    "time make -C build -j4 check": "make",
    "bash -lc 'cd app && npm test'": "npm test",
    "yarn test": "npm test",
    "pnpm --filter web test": "npm test",
    "npm run test:unit -- --ci": "npm run",
    "npx --yes jest src/a.test.ts": "jest",
    "yarn vitest run": "vitest",
    "node --test": "mocha",
    "go test ./...": "go test",
    "cargo +nightly test --workspace": "cargo test",
    "cargo nextest run": "cargo test",
    "ctest --test-dir build": "ctest",
    "cmake --build build --target test": "make",
    "./mvnw -q verify": "maven",
    "./gradlew :app:test --info": "gradle",
    "bundle exec rspec spec/models": "rspec",
    "vendor/bin/phpunit --colors": "phpunit",
    "php artisan test": "phpunit",
    "dotnet test": "dotnet test",
    "mix test": "tests",
    "tox -e py312": "tox",
    "nox -s tests": "nox",
    "coverage run -m pytest": "pytest",
    "python manage.py test app": "tests",
    "python tests/test_words.py": "test file",
    "./run_tests.sh": "test script",
    "bash scripts/test.sh --fast": "test script",
    "docker compose exec web pytest": "pytest",
    "find . -name 'test_*.py' | xargs pytest": "pytest",
    'DB=$(mktemp) pytest "$A" tests/*.py': "pytest",
}
DOES_NOT = [
    *("test -f x && echo tests", "[ -d tests ]", "echo pytest", "pip install pytest", "man pytest"),
    *("grep -rn pytest .", "cat tests/test_a.py", "pytest --version", "pytest --collect-only"),
    *("make -n test", "make build", "npm run build", "yarn add --dev test", "go test -c ./x"),
    *("cargo test --no-run", "cargo check", "tox --listenvs", "mvn -DskipTests package", "ls test"),
    *("git commit -m 'run pytest'", "python -c 'import pytest'", "cd tests", "mkdir -p test", ""),
    *("vim test.py", "python app.py test", "uv pip install pytest", "npm run check-types"),
]


@pytest.mark.parametrize("script", LOOKS_LIKE_TESTS)
def test_it_looks_like_tests(script):
    assert [call.runner.name for call in read(script).tests] == [LOOKS_LIKE_TESTS[script]]


@pytest.mark.parametrize("script", DOES_NOT)
def test_it_does_not(script):
    assert read(script).tests == ()


PASSES = "== 3 passed in 0.12s =="
FAILS = "== 1 failed, 2 passed in 0.12s =="
OUTCOMES = [
    # the script, its exit code, what it printed, how the tests went (None: none was run)
    ("pytest", 0, "", "passed"),
    ("pytest", 1, "", "failed"),
    ("cd app && pytest", 1, "", "failed"),
    ("cd ap && pytest", 1, "bash: line 1: cd: ap: No such file or directory", None),
    ("pytest", 127, "pytest: command not found", None),
    ("pytest", 5, "no tests ran in 0.01s", None),
    ("python -m unittest", 0, "Ran 0 tests in 0.000s\n\nOK", "unknown"),
    ("pytest | tail -3", 0, "", "unknown"),
    ("pytest | tail -3", 0, PASSES, "passed"),
    ("pytest 2>&1 | tail -3", 0, FAILS, "failed"),
    ("set -o pipefail; pytest | tee log", 0, "", "passed"),
    ("set -euo pipefail\npytest | tail", 1, "", "failed"),
    ("set -o pipefail; pytest | grep -c ok", 1, "", "unknown"),
    ("pytest || true", 0, "", "unknown"),
    ("pytest || true", 0, FAILS, "failed"),
    ("pytest || exit 3", 3, "", "failed"),
    ("pytest; echo $?", 0, "1", "unknown"),
    ("echo start; pytest", 1, "", "failed"),
    ("ruff check . && pytest", 0, "", "passed"),
    ("ruff check . && pytest", 1, "", "unknown"),
    ("ruff check . && pytest", 1, FAILS, "failed"),
    ("pytest && git commit -qam done", 0, "", "passed"),
    ("pytest && git commit -qam done", 1, "", "unknown"),
    ("set -e; pytest; ruff check .", 0, "", "passed"),
    ("set -eo pipefail; pytest | tail; ls", 0, "", "passed"),
    ("set -e; set +e; pytest; ruff check .", 0, "", "unknown"),
    ("set -o errexit; pytest; ls; set +o errexit", 0, "", "passed"),
    ("pytest; set -e; ruff check .", 0, "", "unknown"),
    ("set -- -e; pytest; ruff check .", 0, "", "unknown"),
    ("set -o pipefail; set +o pipefail; pytest | tee log", 0, "", "unknown"),
    ("command -v pytest || exit 0; pytest", 0, "", "unknown"),
    ("command -v pytest || exit; pytest", 0, "", "unknown"),
    ("cd app || exit 1; pytest", 0, "", "passed"),
    ("cd app || exit 1; pytest", 1, "", "unknown"),
    ("cd app || exit 1; pytest", 1, FAILS, "failed"),
    ("(cd app || exit 0); pytest", 0, "", "passed"),
    ("(exit 0; pytest)", 0, "", "unknown"),
    ("(cd app && pytest)", 1, "", "failed"),
    ("{ pytest; }", 0, "", "passed"),
    ("! pytest", 0, "", "unknown"),
    ("if pytest; then echo good; fi", 0, "", "unknown"),
    ("for i in 1 2; do pytest; done", 0, "", "unknown"),
    ("pytest &", 0, "", "unknown"),
    ('out=$(pytest); echo "$out" | tail -1', 0, PASSES, "passed"),
    ("cat > test_x.py <<'EOF'\ndef test(): pass\nEOF\npytest test_x.py", 1, "", "failed"),
    ("go test ./... | tail", 0, "ok  \tm\t0.1s", "passed"),
    ("go test ./... | tail", 0, "--- FAIL: TestX\nFAIL", "failed"),
    ("cargo test 2>&1 | tail -3", 0, "test result: ok. 3 passed; 0 failed", "passed"),
    ("npx jest | cat", 0, "Tests:       1 failed, 2 passed, 3 total", "failed"),
    ("pytest", None, "", "unknown"),
]


@pytest.mark.parametrize(("script", "code", "output", "outcome"), OUTCOMES)
def test_the_outcome_is_that_of_the_tests(script, code, output, outcome):
    found = outcome_of(read(script), 0, code, output)
    assert (found and found[0]) == outcome
    if outcome == "unknown":
        assert found[1], "it says why"


def test_where_a_script_goes_and_what_it_picks_is_known():
    [call] = read("cd app && pytest -k words tests/a.py").tests
    assert (call.folder, call.operands, call.narrowed) == ("app", ("tests/a.py",), True)


@pytest.mark.parametrize(
    ("script", "changed_after"),
    [
        ("pytest && sed -i s/a/b/ x.py", {0}),
        ("sed -i s/a/b/ x.py && pytest", set()),
        ("pytest | tee log", set()),
        ("pytest; echo done", set()),
        ("pytest; echo done > log", {0}),
        ("pytest a; sed -i s/a/b/ x.py; pytest b", {0}),
    ],
)
def test_what_may_change_files_after_the_tests_is_known(script, changed_after):
    assert read(script).changed_after == changed_after


def test_files_of_tests_are_known_by_their_names():
    ours = ["test_a.py", "a/b_test.go", "src/a.spec.ts", "a.test.jsx", "x_spec.rb", "AppTest.java"]
    others = ["a.py", "testing.py", "tests/conftest.py", "latest.go", "spec.md", "contest.ts"]
    assert list(map(is_test_file, [*ours, *others])) == [True] * 6 + [False] * 6


@given(st.text(st.sampled_from("pytest make(){}&|;<>$'\"\\\n #-!EOF="), max_size=60))
def test_any_text_is_read(text):
    found = read(text)
    for number in range(len(found.tests)):
        outcome_of(found, number, 1, text)


@pytest.mark.parametrize(
    "output", ["\n" * 200_000, "1" * 200_000, "=== " * 50_000, "cd: " * 50_000]
)
def test_no_output_takes_long_to_read(output):
    for script in ("pytest | cat", "cargo nextest run | cat", "cd x && pytest"):
        began = time.process_time()
        outcome_of(read(script), 0, 1, output)
        assert time.process_time() - began < 1


@pytest.mark.parametrize(("others", "is_read"), [(499, True), (500, False)])
def test_a_script_of_five_hundred_commands_is_read(others, is_read):
    assert bool(read("pytest;" + "true;" * others).tests) is is_read
