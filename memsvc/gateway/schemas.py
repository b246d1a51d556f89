"""JSON schemas of tools in a form that every client can read."""

from collections.abc import Collection
from functools import cache
from typing import Any, Literal

from memsvc.core.tools import Tool, result_adapter

Schema = dict[str, Any]

_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_ONE_SCHEMA = frozenset(
    {"items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"}
)
_SCHEMA_LISTS = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_UNBOUNDED = 2**53
"""Bound that only says that a number is one of JSON's."""
_NULL: Schema = {"type": "null"}
_REMOVED_KEYS = frozenset({"$defs", "$ref", "title", "discriminator"})


def input_schema(tool: Tool) -> Schema:
    """Return the JSON schema of a tool's arguments; it is cached and must not be changed."""
    return _schema(tool.arguments, "validation")


def own_schema(tool: Tool, names: Collection[str]) -> Schema:
    """Return the schema of a tool's arguments for a caller whose project or user is set already."""
    schema, own = input_schema(tool), list(filter(tool.takes_own, names))
    if not own:
        return schema
    properties = schema["properties"] | {
        name: {keyword: value for keyword, value in part.items() if keyword != "default"}
        for name, part in schema["properties"].items()
        if name in own
    }
    required = [name for name in schema.get("required", ()) if name not in own]
    return schema | {"properties": properties, "required": required}


def output_schema(tool: Tool) -> Schema:
    """Return the JSON schema of a tool's result; it is cached and must not be changed."""
    return _schema(tool.result, "serialization")


@cache
def listed_output_schema(tool: Tool) -> Schema:
    """Return the schema of a result for a list of tools.

    Objects in lists only have the names of their fields. Clients check each result against the
    listed schema. The Python SDK takes some 30 µs per value for that, which for the facts of a
    profile is longer than the call."""
    schema: Schema = _named_fields(output_schema(tool))
    return schema


def _named_fields(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_named_fields(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {keyword: _named_fields(value) for keyword, value in schema.items()}
    fields = schema["items"].get("properties") if isinstance(schema.get("items"), dict) else None
    if fields:
        told = [
            f"{name}: {field['description']}" if "description" in field else name
            for name, field in fields.items()
        ]
        result["items"] = {"type": "object", "description": "\n".join(told)}
    return result


@cache  # every transport lists all schemas, and each takes a millisecond or two to generate
def _schema(model: type, mode: Literal["validation", "serialization"]) -> Schema:
    schema = plain(result_adapter(model).json_schema(mode=mode))
    return _short(schema) if mode == "validation" else schema


def plain(schema: Schema) -> Schema:
    """Return the schema without references and generated titles, with `items` in every array.

    ValueError for a recursive schema, which cannot be written without references.
    """
    result: Schema = _plain(schema, schema.get("$defs", {}), ())
    return result


def _plain(schema: Any, definitions: dict[str, Schema], within: tuple[str, ...]) -> Any:
    if not isinstance(schema, dict):
        return schema
    result: Schema = {}
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        if name in within:
            raise ValueError(f"the schema of {name} refers to itself")
        result = _plain(definitions[name], definitions, (*within, name))
    for keyword, value in schema.items():
        if keyword in _NAMED_SCHEMAS:
            result[keyword] = {
                name: _plain(part, definitions, within) for name, part in value.items()
            }
        elif keyword in _ONE_SCHEMA:
            result[keyword] = _plain(value, definitions, within)
        elif keyword in _SCHEMA_LISTS:
            result[keyword] = [_plain(part, definitions, within) for part in value]
        elif keyword not in _REMOVED_KEYS:
            result[keyword] = value
    if result.get("type") == "array":
        result.setdefault("items", {})
    return result


def _short(schema: Any) -> Any:
    """Return the schema of arguments without what no client needs to know.

    A null that means the same as no value is still accepted."""
    if isinstance(schema, list):
        return [_short(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {
        keyword: _short(value)
        for keyword, value in schema.items()
        if not (keyword in {"minimum", "maximum"} and abs(value) == _UNBOUNDED)
    }
    options = result.get("anyOf", [])
    if _NULL in options and result.get("default", ...) is None:
        del result["anyOf"], result["default"]
        others = [option for option in options if option != _NULL]
        result = others[0] | result if len(others) == 1 else {"anyOf": others} | result
    return result
