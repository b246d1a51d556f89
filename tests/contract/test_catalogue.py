"""What clients see of the catalogue, held by a snapshot: `python -m tests.contract.test_catalogue`
writes it anew."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from memsvc.core.scope import Permission
from memsvc.core.tools import Tool
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
    return orjson.dumps(
        tools, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    )


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


def test_every_schema_is_a_schema_and_takes_its_example() -> None:
    refused = []
    for name, tool in TOOLS.items():
        for schema in (input_schema(tool), output_schema(tool)):
            try:
                Draft202012Validator.check_schema(schema)
            except SchemaError as error:
                refused.append(f"{name}: {error.message}")
            if schema["type"] != "object" or "$ref" in orjson.dumps(schema).decode():
                refused.append(f"{name}: no object, or not in one piece")
        example = Draft202012Validator(input_schema(tool)).iter_errors(EXAMPLES[name])
        refused += [f"{name}: the example: {error.message}" for error in example]
    assert not refused, "\n".join(refused)


def test_every_array_says_what_is_in_it() -> None:
    silent = [
        f"{name}{where}"
        for name, tool in TOOLS.items()
        for schema in (input_schema(tool), output_schema(tool))
        for where, part in parts(schema)
        if part.get("type") == "array" and "items" not in part
    ]
    assert not silent, "\n".join(silent)


def test_every_field_is_described() -> None:
    silent = [
        f"{name} {side}: {where}.{field}"
        for name, seen in schemas().items()
        for side in ("input", "output")
        for where, part in parts(seen[side])
        for field, schema in part.get("properties", {}).items()
        if not schema.get("description", "").strip()
    ]
    assert not silent, "\n".join(silent)


def test_every_tool_says_what_it_does_and_whether_it_changes_anything() -> None:
    wrong = [
        f"{name}: {promise}" for name, tool in TOOLS.items() for promise in broken_promises(tool)
    ]
    assert not wrong, "\n".join(wrong)


def broken_promises(tool: Tool) -> Iterator[str]:
    """Yield what a tool does not say, or says of itself although it cannot be."""
    if not tool.title:
        yield "has no title"
    if not tool.description.endswith("."):
        yield "has no description"
    if tool.composed:  # what it calls needs its own permission
        if tool.permission is not Permission.READ:
            yield "needs more than to read"
    # whose keys there are, and everything that a tenant has
    elif tool.read_only != (tool.permission is Permission.READ) and tool.name not in (
        "keys_list",
        "archive_export",
    ):
        yield "is read-only, or is not, against its permission"
    if tool.read_only and (tool.destructive or not tool.idempotent):
        yield "changes nothing, and is destructive or never the same"


if __name__ == "__main__":
    SNAPSHOT.write_bytes(written(schemas()))
