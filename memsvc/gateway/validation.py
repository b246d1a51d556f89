"""Validation of a call before anything runs: its arguments, and the project that they name."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from memsvc.core.errors import MemsvcError, invalid
from memsvc.core.paths import check_project
from memsvc.core.problems import did_you_mean, plain, printable
from memsvc.core.scope import ALL_PROJECTS, DEFAULT_PROJECT
from memsvc.core.tools import Arguments, Tool
from memsvc.gateway.schemas import input_schema

NAME_CHARS_MAX = 64
PROBLEMS_MAX = 5


def named_project(tool: Tool, given: Any) -> str:
    """Return the project that a call is logged under before its arguments are validated.

    The one that they name, if it is valid.
    """
    project = given.get("project") if isinstance(given, Mapping) else None
    if not isinstance(project, str) or not project.strip():
        project = tool.arguments.model_fields["project"].default
    if tool.spans_projects and project == ALL_PROJECTS:
        return ALL_PROJECTS
    try:
        return check_project(project.strip()) if isinstance(project, str) else DEFAULT_PROJECT
    except MemsvcError:
        return DEFAULT_PROJECT


def validated(tool: Tool, given: Any) -> Arguments:
    """Return the validated arguments of a call.

    INVALID_ARGUMENT names the wrong ones, without their values.
    """
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise invalid("arguments must be an object")
    try:
        orjson.dumps(given)
    # some parsers accept what neither a database nor a response can hold
    except orjson.JSONEncodeError:
        raise invalid("arguments must be plain JSON: Unicode text, integers of 64 bits, 254 levels at most") from None
    try:
        return tool.arguments.model_validate(given)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=True, include_input=False)
        told = [_problem(problem) for problem in problems[:PROBLEMS_MAX]]
        if len(problems) > PROBLEMS_MAX:
            told.append(f"and {len(problems) - PROBLEMS_MAX} more")
        raise invalid("; ".join(told), recovery=_recovery(tool, problems)) from None


def _recovery(tool: Tool, problems: Sequence[ErrorDetails]) -> str | None:
    """Return the names of all arguments, if an unknown one was given."""
    unknown = [str(problem["loc"][0])[:NAME_CHARS_MAX] for problem in problems if _is_unknown_argument(problem)]
    if not unknown:
        return None
    names = list(input_schema(tool)["properties"])
    return f"{did_you_mean(unknown[0], names)} The arguments are {', '.join(names)}".strip()


def _is_unknown_argument(problem: ErrorDetails) -> bool:
    return problem["type"] == "extra_forbidden" and len(problem["loc"]) == 1


def _problem(problem: ErrorDetails) -> str:
    """Return the argument and what is wrong with it, without its value."""
    where = ".".join(printable(str(part), NAME_CHARS_MAX) for part in problem["loc"]) or "arguments"
    if problem["type"] == "extra_forbidden":
        return f"{where}: there is no such argument"
    return f"{where} {plain(problem)}"
