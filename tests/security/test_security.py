"""What is never written down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.security.redact import MASK, Redactor
from tests.strategies import json_values


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-" + "x1Y-" * 8,
        "sk-proj-abcdefghijklmnopqrstuvwx",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
        "my-own-secret-value",
    ],
)
@given(before=st.text(max_size=5), data=json_values)
def test_secrets_are_masked_at_any_depth(secret, before, data):
    redact = Redactor(["my-own-secret-value"])
    masked = redact({"a": [data, {"b": f"{before} {secret} "}], f"key {secret}": 1})
    assert secret not in str(masked)
    assert MASK in str(masked)


def test_a_password_in_an_address_is_masked_and_the_rest_stays():
    masked = Redactor().text("git clone https://me:hunter22@example.org/x.git")
    assert masked == f"git clone https://{MASK}@example.org/x.git"


@given(json_values)
def test_what_holds_no_secret_is_the_same_object(data):
    assert Redactor(["my-own-secret-value"])(data) is data
