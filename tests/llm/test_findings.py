"""What refusals taught is known to the next session, for a week or until an update."""

from __future__ import annotations

import json
import os
import time

import pytest

from agentcli.llm.findings import Findings
from agentcli.llm.traits import Traits
from agentcli.llm.wire_protocol import Endpoint

HERE = Endpoint("lab", "m", "http://127.0.0.1:9/v1?key=secret", "sk-secret")


@pytest.fixture
def findings(tmp_path):
    return Findings(tmp_path / "endpoints")


def test_what_is_kept_adds_up(findings):
    findings.keep(HERE, {"unwanted": ["store"], "images": "none"})
    findings.keep(HERE, {"unwanted": ["store", "include"]})
    assert findings.of(HERE) == {"unwanted": ["store", "include"], "images": "none"}
    traits = Traits().with_changes(findings.of(HERE))
    assert (list(traits.unwanted), traits.images) == (["store", "include"], "none")


def test_each_endpoint_and_model_has_its_own(findings):
    findings.keep(HERE, {"images": "none"})
    others = [
        Endpoint("lab", "n", HERE.base_url, None),
        Endpoint("other", "m", HERE.base_url, None),
        Endpoint("lab", "m", "http://127.0.0.1:8/v1", None),
    ]
    assert [findings.of(other) for other in others] == [{}, {}, {}]
    assert findings.of(Endpoint("lab", "m", HERE.base_url, "another key")) == {"images": "none"}


def test_no_secret_of_an_address_is_written(findings):
    findings.keep(HERE, {"images": "none"})
    (path,) = findings.folder.iterdir()
    assert "secret" not in path.name + path.read_text()
    assert findings.folder.stat().st_mode & 0o077 == 0


def test_a_server_may_have_learned_after_a_week(findings):
    findings.keep(HERE, {"images": "none"})
    (path,) = findings.folder.iterdir()
    day = 24 * 3600
    os.utime(path, (time.time(), time.time() - 6 * day))
    assert findings.of(HERE) == {"images": "none"}
    os.utime(path, (time.time(), time.time() - 8 * day))
    assert findings.of(HERE) == {}


def test_another_version_may_know_more_of_a_provider(findings, monkeypatch):
    findings.keep(HERE, {"efforts": {"low": {"reasoning_effort": "low"}}, "images": "none"})
    monkeypatch.setattr("agentcli.llm.findings.__version__", "another")
    assert findings.of(HERE) == {}
    findings.keep(HERE, {"short_ids": True})
    assert findings.of(HERE) == {"short_ids": True}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"changes": 7}', "[" * 99_999, "\xff"])
def test_a_file_that_is_broken_counts_as_unknown(findings, text):
    findings.keep(HERE, {"images": "none"})
    (path,) = findings.folder.iterdir()
    path.write_bytes(text.encode("latin-1"))
    assert findings.of(HERE) == {}
    findings.keep(HERE, {"short_ids": True})
    assert findings.of(HERE) == {"short_ids": True}


def test_a_folder_that_can_not_be_written_costs_only_the_memory(findings, caplog):
    findings.folder.write_text("a file")
    findings.keep(HERE, {"images": "none"})
    assert findings.of(HERE) == {}
    assert "can't be kept" in caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        {"unheard_of": 1},
        {"images": 7},
        {"short_ids": "yes"},
        {"most_output_tokens": True},
        {"unwanted": "store"},
        {"efforts": ["low"]},
        {"filled": None},
    ],
)
def test_changes_of_another_version_are_left_out(changes):
    assert Traits().with_changes(json.loads(json.dumps(changes))) == Traits()
