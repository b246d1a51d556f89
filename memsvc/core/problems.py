"""What is wrong with something that was given, in plain words and without the value."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import ErrorDetails

_PLAIN: Final[Mapping[str, str]] = {
    "missing": "is required",
    "string_type": "must be a string",
    "string_unicode": "must be Unicode text",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type"), "must be an array"),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"), "must be an object"
    ),
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "union_tag_invalid": "must be one of {expected_tags}",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be {ge} or greater",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "string_too_short": "must have at least {min_length} {characters}",
    "string_too_long": "may have {max_length} {characters} at the most",
    "too_short": "must have at least {min_length} {members}",
    "too_long": "may have {max_length} {members} at the most",
    "string_pattern_mismatch": "must match {pattern}",
}
"""By the kinds of pydantic; what stands in braces is what the field allows."""


def plain(problem: ErrorDetails) -> str:
    """What a value must be that is not: "must be a string". It goes behind the name of the field."""
    text = _PLAIN.get(problem["type"])
    if text is None:
        return problem["msg"].removeprefix("Value error, ")
    allowed: dict[str, Any] = dict(problem.get("ctx", {}))
    count = allowed.get("min_length", allowed.get("max_length"))
    one = count == 1
    return text.format(**allowed, characters="character" if one else "characters", members="item" if one else "items")
