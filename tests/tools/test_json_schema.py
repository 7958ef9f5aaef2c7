"""What a model is told of the arguments of a tool, whatever their schema is."""

from __future__ import annotations

from agentcli.tools.base import parameters


def test_references_are_followed_and_what_tells_a_model_nothing_is_left_out():
    city = {"type": "string", "title": "City", "enum": ["Oslo", "Rome"]}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Arguments",
        "$defs": {"City": city},
        "properties": {"title": {"type": "string"}, "city": {"$ref": "#/$defs/City"}},
        "required": ["city"],
    }
    assert parameters(schema) == {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "city": {"type": "string", "enum": ["Oslo", "Rome"]},
        },
        "required": ["city"],
    }


def test_references_that_double_each_other_are_not_followed_for_ever():
    level = {
        f"level{n}": {"properties": {f"p{m}": {"$ref": f"#/$defs/level{n + 1}"} for m in range(30)}}
        for n in range(30)
    }
    schema = {"$defs": level, "properties": {"all": {"$ref": "#/$defs/level0"}}}
    assert parameters(schema) == {"type": "object", "properties": {}}
    loop = {"$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"a": {"$ref": "#/$defs/a"}}}
    assert parameters(loop)["properties"] == {"a": {}}


def test_what_may_be_null_may_be_left_out():
    since = {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "default": None,
        "description": "when",
    }
    either = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    told = parameters({"properties": {"since": since, "either": either}})
    assert told["properties"] == {
        "since": {"type": "string", "description": "when"},
        "either": either,
    }


def test_a_server_decides_what_is_said_of_defaults_and_other_arguments():
    deep = {"type": "boolean", "default": False}
    schema = {
        "type": "object",
        "properties": {
            "deep": deep,
            "path": {"type": "string", "default": "."},
            "all": {"type": "object", "additionalProperties": True},
        },
        "additionalProperties": False,
    }
    assert parameters(schema) == schema
    assert parameters(schema, terse=True) == {
        "type": "object",
        "properties": {
            "deep": {"type": "boolean"},
            "path": {"type": "string"},
            "all": {"type": "object"},
        },
    }
