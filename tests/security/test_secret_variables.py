"""Which variables hold a secret, and which of their values are masked wherever they turn up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentcli.security.redact import is_secret, masked_values
from tests.tables import each_row

SECRET = {
    "DB_PASS": "x",
    "DBPASS": "x",
    "PGPASSWORD": "x",
    "MYSQL_PWD": "x",
    "SENTRY_DSN": "x",
    "APP_COOKIE": "x",
    "GITHUB_TOKEN": "x",
    "githubToken": "x",
    "MY_APIKEY": "x",
    "SSH_KEY": "x",
    "STRIPE": "sk_live_" + "a1" * 12,
    "DATABASE_URL": "postgres://me:hunter2@host/db",
    "AMQP": "amqps://user:pw@host",
    "SENTRY": "https://0123456789abcdef0123@o1.ingest.example.org/1",
    "AZURE": "DefaultEndpointsProtocol=https;AccountKey=abc==",
    "SLACK": "https://hooks.slack.com/services/T0/B0/xyz",
    "JSON": "-----BEGIN RSA PRIVATE KEY-----",
}
ORDINARY = {
    "PATH": "/usr/bin",
    "PWD": "/w",
    "OLDPWD": "/w",
    "SSH_ASKPASS": "/usr/bin/askpass",
    "SSH_AUTH_SOCK": "/tmp/agent",
    "TOKENIZERS_PARALLELISM": "false",
    "GIT_AUTHOR_NAME": "A",
    "PYTHONHASHSEED": "0",
    "API_URL": "https://example.org/v1",
    "PROXY": "http://proxy:3128",
    "KEYBOARD": "de",
    "EDITOR": "vim",
}


@each_row("name", SECRET)
def test_a_secret_is_known_by_its_name_or_by_the_form_of_its_value(name):
    assert is_secret(name, SECRET[name])


@each_row("name", ORDINARY)
def test_what_is_ordinary_is_no_secret(name):
    assert not is_secret(name, ORDINARY[name])


@each_row(
    "value",
    [
        *(
            "s3cr3tpw",
            "hunter2hunter2",
            "correct horse battery",
            "kP9vQ2xL7mN4",
            "a1b2c3d4e5f6a7b8",
        ),
        *("p@ssw0rd!x1y", "abcdefghijklmnopqrst", "postgres://me:hunter2@host/db"),
        "https://0123456789abcdef0123@o1.ingest.example.org/1",
    ],
)
def test_a_value_that_nobody_writes_by_accident_is_masked(value):
    assert list(masked_values({"APP_TOKEN": value})) == [value]
    assert list(masked_values({"APP_TOKEN": f" {value}\n"})) == [value]


@each_row(
    "value",
    [
        *("", "1", "true", "test", "password", "password123", "postgres", "changeme-123", "admin"),
        *(
            "development",
            "localhost",
            "12345678901234567890",
            "aaaaaaaaaaaaaaaaaaaaaaa",
            "xxxxxxxx",
        ),
        *("/home/me/.ssh/id_ed25519", "~/keys/one", "./secrets/token", "/usr/bin/pass-1"),
        *("https://example.org/token", "python-3.11", "v1.2.3-rc1", "token", "alice-smith"),
    ],
)
def test_a_value_that_is_ordinary_text_is_not_masked(value):
    assert list(masked_values({"APP_TOKEN": value})) == []


def test_what_another_variable_says_openly_is_not_masked():
    environ = {"USER": "alice42smith", "DB_PASS": "alice42smith", "HOST": "kP9vQ2xL7mN4"}
    assert list(masked_values({**environ, "API_KEY": "kP9vQ2xL7mN4"})) == []


@given(st.dictionaries(st.text(), st.text()))
def test_any_environment_can_be_asked(environ):
    assert set(masked_values(environ)) <= {value.strip() for value in environ.values()}
