"""Schemas that the suite checks word for word, and those of its forms."""

from typing import Any, Final

Schema = dict[str, Any]

SCHEMA_2020_12: Final[Schema] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

HEADERS_SCHEMA: Final[Schema] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "query": {"type": "string"},
    },
}
"""One argument that clients also send as the header Mcp-Param-Region, and one that they do not."""


def form(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    """Return the schema of a form with these fields."""
    return {"type": "object", "properties": properties} | (
        {"required": list(required)} if required else {}
    )


def strings(*names: str) -> Schema:
    """Return the schema of a form of texts, all of them required."""
    return form(names, **{name: {"type": "string"} for name in names})


def _with_title(*pairs: tuple[str, str]) -> list[Schema]:
    return [{"const": value, "title": title} for value, title in pairs]


DEFAULTS_FORM: Final = form(
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)

ENUMS_FORM: Final = form(
    untitledSingle={"type": "string", "enum": ["option1", "option2", "option3"]},
    titledSingle={
        "type": "string",
        "oneOf": _with_title(
            ("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option")
        ),
    },
    legacyEnum={
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti={
        "type": "array",
        "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
    },
    titledMulti={
        "type": "array",
        "items": {
            "anyOf": _with_title(
                ("value1", "First Choice"), ("value2", "Second Choice"), ("value3", "Third Choice")
            )
        },
    },
)
