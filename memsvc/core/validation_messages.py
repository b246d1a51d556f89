"""Plain-English messages for validation errors, without the invalid value."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final

from pydantic_core import ErrorDetails

from memsvc.core.timestamp import TIME_FORMS

_PLAIN: Final[Mapping[str, str]] = {
    "missing": "is required",
    "string_type": "must be a string",
    "string_unicode": "must be Unicode text",
    **dict.fromkeys(
        ("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "must be a whole number"
    ),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type"), "must be an array"),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"),
        "must be an object",
    ),
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "union_tag_invalid": "must be one of {expected_tags}",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be {ge} or greater",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "string_too_short": "must have at least {min_length} {characters}",
    "string_too_long": "is limited to {max_length} {characters}",
    "too_short": "must have at least {min_length} {members}",
    "too_long": "is limited to {max_length} {members}",
    **dict.fromkeys(
        ("uuid_parsing", "uuid_type"),
        "must be an id such as 3f2b8c1e-9d4a-4c6e-8f10-2a7b5c9d0e31",
    ),
    **dict.fromkeys(
        (
            "datetime_type",
            "datetime_parsing",
            "datetime_from_date_parsing",
            "datetime_object_invalid",
            "timezone_aware",
        ),
        f"must be {TIME_FORMS}",
    ),
    "string_pattern_mismatch": "must match {pattern}",
}
"""By pydantic's error types; braces hold the limits of the field."""


_POSITION: Final = re.compile(r"line \d+ column \d+")


def position(error: ValueError) -> str:
    """Return ", at line 1 column 2" where a JSON parser reports it, else "".

    Never the text there."""
    found = _POSITION.search(str(error))
    return f", at {found[0]}" if found else ""


MATCH_LIMIT: Final = 2
MATCH_CUTOFF: Final = 0.75
"""Minimum similarity of a suggested name, of 1."""


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Return "did you mean x or y?" with the names nearest to the given one; "" if none is near."""
    matches = get_close_matches(name, list(names), n=MATCH_LIMIT, cutoff=MATCH_CUTOFF)
    return f"did you mean {' or '.join(matches)}?" if matches else ""


def validation_message(error: ErrorDetails) -> str:
    """Return what a value must be, such as "must be a string", to follow the name of the field."""
    text = _PLAIN.get(error["type"])
    if text is None:
        return error["msg"].removeprefix("Value error, ")
    allowed: dict[str, Any] = dict(error.get("ctx", {}))
    count = allowed.get("min_length", allowed.get("max_length"))
    is_one = count == 1
    return text.format(
        **allowed,
        characters="character" if is_one else "characters",
        members="item" if is_one else "items",
    )


LOGGED_CHARS_MAX: Final = 128
"""Characters of a name that the call log keeps."""


def safe_text(text: str, chars_max: int) -> str:
    """Return the text shortened, with characters replaced that a log or a database cannot take."""
    text = text[:chars_max]
    return (
        text
        if text.isprintable()
        else "".join(
            character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
            for character in text
        )
    )
