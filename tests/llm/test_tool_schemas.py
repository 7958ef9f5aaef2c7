"""Providers take the schema of any tool, and the tool gets arguments in its own terms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agentcli.llm.tool_schemas import DIALECTS, WireTools
from agentcli.messages import ToolCall, ToolSchema
from agentcli.plain_json import plain, words
from tests.server.schemas import anthropic_schema, gemini_schema, moonshot_schema, openai_schema
from tests.strategies import json_values

DRAFT = Draft202012Validator(
    Draft202012Validator.META_SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER
)
FAULTS = {
    "": lambda schema: [*openai_schema(schema, "t", False), *anthropic_schema(schema, "t")],
    "gemini": lambda schema: gemini_schema(schema, "t"),
    "moonshot": lambda schema: [*openai_schema(schema, "t", False), *moonshot_schema(schema)],
    "llamacpp": lambda schema: openai_schema(schema, "t", False),
}


def draft_faults(schema: object) -> Iterator[str]:
    yield from (fault.message for fault in DRAFT.iter_errors(schema))


def declared(schema: object, dialect: str = "", *unwanted: str) -> Mapping[str, Any]:
    tool = ToolSchema("t", "", schema)  # type: ignore[arg-type]
    return WireTools(dialect, unwanted).declared([tool])[0].parameters


def with_properties(**properties: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def read_by(tools: WireTools, arguments: str, name: str = "t") -> str:
    return tools.own(ToolCall("c", name, arguments)).arguments


def property_of(schema: object, dialect: str = "", *unwanted: str) -> object:
    return declared(with_properties(it=schema), dialect, *unwanted)["properties"]["it"]


def test_a_schema_that_needs_no_change_stays_the_same_object():
    schema = {
        **with_properties(
            path={"type": "string", "description": "A file", "default": "."},
            lines={"type": "array", "items": {"type": "integer", "minimum": 1}},
            either={"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        "required": ["path"],
        "additionalProperties": False,
    }
    tools = [ToolSchema("t", "", schema)]
    for dialect in ("", "llamacpp"):
        wire = WireTools(dialect)
        assert wire.declared(tools)[0] is tools[0]
        assert wire.declared(tools) is wire.declared(tools)
        call = ToolCall("c", "t", '{"path":  "a",}')
        assert wire.own(call) is call


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "any", "description": "x"}, {"description": "x"}),
        ({"type": "STRING"}, {"type": "string"}),
        ({"type": "int|null"}, {"type": ["integer", "null"]}),
        ({"type": ["string", "any"]}, {}),
        (
            {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            {"type": "integer", "exclusiveMinimum": 0},
        ),
        ({"minimum": 0, "exclusiveMinimum": False}, {"minimum": 0}),
        ({"type": "string", "minLength": "3", "maxLength": 4}, {"type": "string", "maxLength": 4}),
        ({"type": "string", "pattern": r"^\p{L}+$"}, {"type": "string"}),
        ({"enum": "on"}, {"enum": ["on"]}),
        ({"enum": []}, {}),
        (
            {"type": "array", "items": [{"type": "int"}]},
            {"type": "array", "prefixItems": [{"type": "integer"}], "items": {}},
        ),
        ({"anyOf": []}, {}),
        ({"anyOf": [{"type": "string"}, None]}, {"anyOf": [{"type": "string"}]}),
        (True, {}),
        ("string", {}),
        (
            {"properties": [{"name": "a", "type": "string"}]},
            {"properties": {"a": {"type": "string"}}},
        ),
        ({"properties": {"a": {"required": True}}}, {"properties": {"a": {}}, "required": ["a"]}),
        ({"properties": {"a": {}}, "required": "a"}, {"properties": {"a": {}}, "required": ["a"]}),
        ({"additionalProperties": "yes"}, {}),
    ],
)
def test_older_drafts_and_mistakes_are_read_as_they_were_meant(written, read):
    assert property_of(written) == read


@pytest.mark.parametrize("schema", [None, [], "object", {"type": "string"}, {}, {"type": "object"}])
def test_the_top_is_always_an_object(schema):
    assert declared(schema) == {"type": "object", "properties": {}}


def test_alternatives_at_the_top_are_offered_together():
    by_name = {
        **with_properties(name={"type": "string"}, kind={"const": "a"}),
        "required": ["kind", "name"],
    }
    by_id = {**with_properties(id={"type": "integer"}, kind={"const": "b"}), "required": ["kind"]}
    assert declared({"description": "Find.", "oneOf": [by_name, by_id]}) == {
        "description": "Find.",
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "kind": {"anyOf": [{"const": "a"}, {"const": "b"}]},
            "id": {"type": "integer"},
        },
        "required": ["kind"],
    }
    extended = {**with_properties(a={"type": "string"}), "allOf": [by_id]}
    assert declared(extended)["required"] == ["kind"]
    assert list(declared(extended)["properties"]) == ["a", "id", "kind"]


def test_references_are_resolved_and_a_circle_ends_as_an_open_object():
    node = with_properties(value={"type": "string"}, next={"$ref": "#/$defs/Node"})
    schema = {**with_properties(first={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}
    first = declared(schema)["properties"]["first"]
    assert first == with_properties(value={"type": "string"}, next={"type": "object"})
    assert property_of({"$ref": "https://example.org/schema.json", "description": "x"}) == {
        "description": "x"
    }


def test_what_is_nested_too_deep_is_open():
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(300):
        deep = with_properties(inner=deep)
    found, levels = declared(deep), 0
    while "properties" in found:
        found, levels = found["properties"]["inner"], levels + 1
    assert (found, levels) == ({"type": "object"}, 10)


def test_keywords_that_were_refused_are_left_out_but_no_property_of_that_name():
    schema = with_properties(pattern={"type": "string", "pattern": "a"})
    assert declared(schema, "", "pattern") == with_properties(pattern={"type": "string"})


class TestNames:
    """Names that a provider refuses."""

    schema = with_properties(
        **{
            "$filter": {"type": "string"},
            "_filter": {"type": "string"},
            "user name": {
                "type": "array",
                "items": {"anyOf": [with_properties(**{"a/b": {}}), {"type": "string"}]},
            },
            "labels": {"type": "object", "additionalProperties": with_properties(**{"x y": {}})},
            "n" * 80: {"type": "string"},
            "этаж": {"type": "integer"},
        }
    )
    own = {
        "$filter": "a",
        "_filter": "b",
        "user name": ["text", {"a/b": {"a/b": 1}}],
        "labels": {"user name": {"x y": 1}},
        "n" * 80: "long",
        "этаж": 3,
        "never declared $": 1,
    }

    @pytest.fixture
    def tools(self) -> WireTools:
        tools = WireTools("")
        tools.declared([ToolSchema("t", "", {**self.schema, "required": ["$filter"]})])
        return tools

    def test_others_are_declared_with_the_real_ones_as_titles(self):
        wire = declared({**self.schema, "required": ["$filter"]})
        first, second, third, labels, long, floor = wire["properties"]
        assert (first, second, third) == ("_filter_2", "_filter", "user_name")
        assert (labels, long, floor) == ("labels", "n" * 60, "____")
        assert wire["required"] == ["_filter_2"]
        assert wire["properties"][floor] == {"type": "integer", "title": "этаж"}

    def test_the_tool_gets_its_own_at_any_depth_and_history_has_the_declared_ones(self, tools):
        wire = {
            "_filter_2": "a",
            "_filter": "b",
            "user_name": ["text", {"a_b": {"a/b": 1}}],
            "labels": {"user name": {"x_y": 1}},
            "n" * 60: "long",
            "____": 3,
            "never declared $": 1,
        }
        assert json.loads(read_by(tools, json.dumps(wire))) == self.own
        assert json.loads(tools.wire("t", json.dumps(self.own))) == wire

    @pytest.mark.parametrize("broken", ['{"_filter_2": ', "[1]", "", '"text"'])
    def test_arguments_that_are_no_object_stay_as_they_are(self, tools, broken):
        for name in ("t", "another"):
            call = ToolCall("c", name, broken)
            assert tools.own(call) is call

    @pytest.mark.parametrize(
        "written", ['{"_filter_2": "a\nb",}', "```json\n{'_filter_2': 'a\\nb'}\n```"]
    )
    def test_arguments_that_are_json_but_for_their_form_are_mended_first(self, tools, written):
        call = tools.own(ToolCall("c", "t", written))
        assert json.loads(call.arguments) == {"$filter": "a\nb"}
        assert call.arguments_before == written


class TestGemini:
    """Its subset of OpenAPI."""

    @pytest.mark.parametrize(
        ("written", "told"),
        [
            (
                {"type": ["string", "null"], "title": "T", "default": None},
                {"type": "string", "nullable": True},
            ),
            (
                {"type": ["string", "integer"], "minimum": 1, "description": "x"},
                {
                    "description": "x",
                    "anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}],
                },
            ),
            (
                {"anyOf": [{"type": "string"}, {"type": "null"}]},
                {"type": "string", "nullable": True},
            ),
            (
                {"oneOf": [{"type": "string"}, {"type": "boolean"}]},
                {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
            ),
            ({"allOf": [{"type": "string"}, {"minLength": 2}]}, {"minLength": 2, "type": "string"}),
            ({"enum": ["a", "", None]}, {"type": "string", "enum": ["a"], "nullable": True}),
            ({"const": "a"}, {"type": "string", "enum": ["a"]}),
            (
                {"type": "integer", "enum": [1, 2], "description": "How"},
                {"type": "integer", "description": "How (one of [1, 2])"},
            ),
            ({"type": "string", "format": "uri"}, {"type": "string", "description": "(uri)"}),
            ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
            (
                {"type": "integer", "exclusiveMinimum": 0, "multipleOf": 2, "maximum": 9},
                {"type": "integer", "maximum": 9},
            ),
            ({"items": {"type": "string"}}, {"items": {"type": "string"}, "type": "array"}),
            (
                {
                    **with_properties(a={"type": "string"}),
                    "required": ["b"],
                    "additionalProperties": False,
                },
                with_properties(a={"type": "string"}),
            ),
            (
                {"type": "object", "description": "Headers"},
                {"type": "string", "description": "Headers (as JSON)"},
            ),
            ({"description": "Anything"}, {"type": "string", "description": "Anything (as JSON)"}),
        ],
    )
    def test_it_is_told_what_it_can_be_told(self, written, told):
        assert property_of(written, "gemini") == told

    def test_what_is_declared_as_text_reaches_the_tool_as_values(self):
        schema = with_properties(
            headers={"type": "object", "additionalProperties": {"type": "string"}},
            any={},
            list={"type": "array"},
            either={"type": ["string", "object"]},
        )
        tools = WireTools("gemini")
        tools.declared([ToolSchema("t", "", schema)])
        wire = {
            "headers": '{"a": "b"}',
            "any": "5",
            "list": ["x", "[1]"],
            "either": "5",
            "text": "5",
        }
        own = {"headers": {"a": "b"}, "any": 5, "list": ["x", [1]], "either": "5", "text": "5"}
        assert json.loads(read_by(tools, json.dumps(wire))) == own
        assert json.loads(tools.wire("t", json.dumps(own))) == wire


def test_moonshot_gets_no_word_at_alternatives_that_stands_at_the_whole():
    both = {"type": ["object", "array"], "default": None, "allOf": [{"default": None}]}
    told = property_of(both, "moonshot")
    assert told["default"] is None
    assert not any("default" in branch for branch in told["anyOf"])


def test_moonshot_gets_the_type_of_alternatives_in_each_of_them():
    either = {
        "type": "object",
        "description": "Where",
        **with_properties(a={"type": "string"}, b={"type": "string"}),
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    told = property_of(either, "moonshot")
    assert told == {
        "description": "Where",
        "anyOf": [
            {**with_properties(a={"type": "string"}, b={"type": "string"}), "required": ["a"]},
            {**with_properties(a={"type": "string"}, b={"type": "string"}), "required": ["b"]},
        ],
    }


KEYWORDS = words(
    "type properties required items enum anyOf oneOf allOf $ref additionalProperties format "
    "minimum exclusiveMinimum pattern not const description default prefixItems patternProperties"
)
NAMES = st.sampled_from(["a", "$a", "a b", "_a", "", "type", "n" * 70, "я"])


def schemas() -> st.SearchStrategy[Any]:
    """Valid schemas, and some that are nearly so."""
    kinds = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
    leaf = st.fixed_dictionaries(
        {},
        optional={
            "type": kinds | st.lists(kinds, unique=True) | st.sampled_from(["any", "int", "", 1]),
            "description": st.text(max_size=5),
            "enum": st.lists(st.none() | st.sampled_from(["x", "", 1, 2.5, True]), max_size=3),
            "const": st.none() | st.sampled_from(["x", 1]),
            "format": st.sampled_from(["date-time", "uri", "int32"]),
            "minimum": st.integers(0, 5) | st.just("1"),
            "exclusiveMinimum": st.booleans() | st.integers(0, 5),
            "pattern": st.sampled_from(["^a$", r"\p{L}", "("]),
            "default": json_values,
            "$ref": st.sampled_from(["#", "#/$defs/A", "#/properties/a", "other.json"]),
        },
    )

    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        table = st.dictionaries(NAMES, inner, max_size=3)
        several = st.lists(inner, max_size=3)
        more = st.fixed_dictionaries(
            {},
            optional={
                "properties": table | several,
                "required": st.lists(NAMES, max_size=2) | NAMES,
                "items": inner | several,
                "prefixItems": several,
                "additionalProperties": inner | st.booleans(),
                "patternProperties": table,
                "anyOf": several,
                "oneOf": several,
                "allOf": several,
                "not": inner,
                "$defs": table.map(lambda found: {"A": found.get("a", {})}),
            },
        )
        return st.builds(lambda a, b: {**a, **b} if isinstance(a, dict) else b, leaf, more)

    return st.recursive(leaf | st.booleans() | json_values, larger, max_leaves=12)


garbage = st.recursive(
    json_values,
    lambda inner: st.dictionaries(
        st.sampled_from(sorted(KEYWORDS)), inner | st.lists(inner, max_size=2)
    ),
    max_leaves=10,
)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(schema=schemas() | garbage)
def test_any_schema_is_made_acceptable(dialect, schema):
    told = declared(schema, dialect)
    assert [*draft_faults(told), *FAULTS[dialect](told)] == []
    json.dumps(told)
    assert plain(told) is told


def values_for(schema: Mapping[str, Any], draw: st.DrawFn, depth: int = 0) -> Any:
    """A value as a plain schema has it, as far as names and nesting go."""
    branches = schema.get("anyOf", []) + schema.get("oneOf", []) + schema.get("allOf", [])
    if branches and draw(st.booleans()):
        return values_for(draw(st.sampled_from(branches)), draw, depth)
    if table := schema.get("properties"):
        names = draw(st.lists(st.sampled_from(sorted(table)), unique=True))
        return {name: values_for(table[name], draw, depth + 1) for name in names}
    if isinstance(items := schema.get("items"), dict) and depth < 6:
        return [values_for(items, draw, depth + 1) for _ in range(draw(st.integers(0, 2)))]
    return draw(st.integers(0, 9) | st.sampled_from(["x", "$a", "a b"]) | st.booleans())


@pytest.mark.parametrize("dialect", DIALECTS)
@given(data=st.data())
def test_arguments_make_the_round_trip(dialect, data):
    schema = data.draw(schemas())
    tools = WireTools(dialect)
    tools.declared([ToolSchema("t", "", schema)])
    own = data.draw(st.composite(lambda draw: values_for(plain(schema), draw))())
    if isinstance(own, dict):
        wire = tools.wire("t", json.dumps(own))
        assert json.loads(read_by(tools, wire)) == own
        assert set(json.loads(wire)) <= set(declared(schema, dialect)["properties"])
