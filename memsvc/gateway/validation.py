"""Validation of a call before anything runs: its arguments, and the project that they name."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from memsvc.core.errors import MemsvcError, invalid
from memsvc.core.paths import check_project
from memsvc.core.scope import ALL_PROJECTS, DEFAULT_PROJECT
from memsvc.core.tools import Arguments, Tool
from memsvc.core.validation_messages import safe_text, suggest_name, validation_message
from memsvc.gateway.schemas import input_schema

NAME_CHARS_MAX = 64
ERRORS_MAX = 5


def named_project(tool: Tool, arguments: Any) -> str:
    """Return the project that a call is logged under before its arguments are validated.

    The one that they name, if it is valid.
    """
    project = arguments.get("project") if isinstance(arguments, Mapping) else None
    if not isinstance(project, str) or not project.strip():
        project = tool.arguments.model_fields["project"].default
    if tool.spans_projects and project == ALL_PROJECTS:
        return ALL_PROJECTS
    try:
        return check_project(project.strip()) if isinstance(project, str) else DEFAULT_PROJECT
    except MemsvcError:
        return DEFAULT_PROJECT


def validate(tool: Tool, arguments: Any) -> Arguments:
    """Return the validated arguments of a call.

    INVALID_ARGUMENT names the wrong ones, without their values.
    """
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise invalid("arguments must be an object")
    try:
        orjson.dumps(arguments)
    # some parsers accept what neither a database nor a response can hold
    except orjson.JSONEncodeError:
        raise invalid(
            "arguments must be plain JSON: Unicode text, integers of 64 bits, 254 levels at most"
        ) from None
    try:
        return tool.arguments.model_validate(arguments)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True, include_input=False)
        messages = [_message(detail) for detail in details[:ERRORS_MAX]]
        if len(details) > ERRORS_MAX:
            messages.append(f"and {len(details) - ERRORS_MAX} more")
        raise invalid("; ".join(messages), recovery=_recovery(tool, details)) from None


def _recovery(tool: Tool, details: Sequence[ErrorDetails]) -> str | None:
    """Return the names of all arguments, if an unknown one was given."""
    unknown = [
        str(detail["loc"][0])[:NAME_CHARS_MAX] for detail in details if _is_unknown_argument(detail)
    ]
    if not unknown:
        return None
    names = list(input_schema(tool)["properties"])
    return f"{suggest_name(unknown[0], names)} The arguments are {', '.join(names)}".strip()


def _is_unknown_argument(detail: ErrorDetails) -> bool:
    return detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1


def _message(detail: ErrorDetails) -> str:
    """Return the argument and what is wrong with it, without its value."""
    where = ".".join(safe_text(str(part), NAME_CHARS_MAX) for part in detail["loc"]) or "arguments"
    if detail["type"] == "extra_forbidden":
        return f"{where}: there is no such argument"
    return f"{where} {validation_message(detail)}"
