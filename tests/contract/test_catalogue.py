"""What clients see of the catalogue, held by a snapshot: `python -m tests.contract.test_catalogue` writes it anew."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator

from memsvc.core.scope import Permission
from memsvc.core.tools import Composed
from memsvc.gateway.schemas import input_schema, output_schema
from tests.contract.catalogue import EXAMPLES, TOOLS

SNAPSHOT = Path(__file__).with_name("schemas.json")


def schemas() -> dict[str, Any]:
    """What `tools/list` says of each tool."""
    return {
        name: {
            "title": tool.title,
            "description": tool.description,
            "read_only": tool.read_only,
            "idempotent": tool.idempotent,
            "destructive": tool.destructive,
            "permission": tool.permission.value,
            "input": input_schema(tool),
            "output": output_schema(tool),
        }
        for name, tool in sorted(TOOLS.items())
    }


def written(tools: dict[str, Any]) -> bytes:
    return orjson.dumps(tools, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def parts(schema: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a schema, with the way to it."""
    if isinstance(schema, list):
        for number, inner in enumerate(schema):
            yield from parts(inner, f"{where}[{number}]")
    elif isinstance(schema, dict):
        yield where, schema
        for name, inner in schema.get("properties", {}).items():
            yield from parts(inner, f"{where}.{name}")
        for keyword in ("items", "additionalProperties", "anyOf", "oneOf", "allOf"):
            yield from parts(schema.get(keyword), f"{where}/{keyword}")


def test_no_schema_changes_by_accident() -> None:
    assert orjson.loads(SNAPSHOT.read_bytes()) == orjson.loads(written(schemas())), (
        "if the change is meant, run `python -m tests.contract.test_catalogue` and read the diff"
    )


def test_every_tool_has_an_example() -> None:
    assert EXAMPLES.keys() == TOOLS.keys()


@pytest.mark.parametrize("name", TOOLS)
def test_a_schema_is_a_schema_and_takes_the_example(name: str) -> None:
    for schema in (input_schema(TOOLS[name]), output_schema(TOOLS[name])):
        Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
        assert "$ref" not in orjson.dumps(schema).decode()
    Draft202012Validator(input_schema(TOOLS[name])).validate(EXAMPLES[name])


@pytest.mark.parametrize("name", TOOLS)
def test_every_array_says_what_is_in_it(name: str) -> None:
    for schema in (input_schema(TOOLS[name]), output_schema(TOOLS[name])):
        for where, part in parts(schema):
            assert part.get("type") != "array" or "items" in part, where


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize("name", TOOLS)
def test_every_field_is_described(name: str, side: str) -> None:
    silent = [
        f"{where}.{field}"
        for where, part in parts(schemas()[name][side])
        for field, schema in part.get("properties", {}).items()
        if not schema.get("description", "").strip()
    ]
    assert silent == []


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_says_what_it_does_and_whether_it_changes_anything(name: str) -> None:
    tool = TOOLS[name]
    assert tool.title
    assert tool.description.endswith(".")
    if isinstance(tool.run, Composed):  # what it calls needs its own permission
        assert tool.permission is Permission.READ
    else:
        # whose keys there are, and everything that a tenant has
        telling = name in ("keys_list", "archive_export")
        assert tool.read_only == (tool.permission is Permission.READ) or telling
    assert not (tool.read_only and (tool.destructive or not tool.idempotent))


if __name__ == "__main__":
    SNAPSHOT.write_bytes(written(schemas()))
