"""Tools by path and query: what a request asks of a tool is said by the method, the path and the query as well."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

from starlette.requests import Request
from starlette.types import Scope

from memsvc.core.errors import invalid
from memsvc.gateway.credentials import QUERY_NAMES
from memsvc.gateway.tools import json_body

PROJECT: Final = "project"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path, and the tool that it calls. `{name}` in the path is one segment, decoded once and by
    itself; `named` tells which argument that is where it is not the one of that name. The query may hold `query` and
    the project; with `takes_body` the arguments that are neither in the path nor in the query come as JSON. `given` are
    arguments that are the same each time unless the request says otherwise."""

    method: str
    path: str
    tool: str
    query: tuple[str, ...] = ()
    takes_body: bool = False
    named: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def segments(self) -> tuple[str, ...]:
        """The path between its slashes."""
        return tuple(self.path.split("/")[1:])

    def placeholders(self) -> dict[str, str]:
        """The names in the path, with the arguments that they stand for."""
        names = [one[1:-1] for one in self.segments if one.startswith("{")]
        return {name: self.named.get(name, name) for name in names}

    def matched(self, segments: Sequence[str]) -> dict[str, str] | None:
        """The arguments in the path of a request, None where it is another path. A word of the path is only meant where
        it stands as it is: percent-encoded, it is a name like any other. INVALID_ARGUMENT for what is no text: two such
        names must not be the same one."""
        own = self.segments
        if len(own) != len(segments):
            return None
        found: dict[str, str] = {}
        for wanted, raw in zip(own, segments, strict=True):
            if wanted.startswith("{"):
                found[self.named.get(wanted[1:-1], wanted[1:-1])] = _decoded(raw)
            elif wanted != raw:
                return None
        return found

    async def arguments(self, request: Request, found: dict[str, str]) -> dict[str, Any]:
        """The arguments of the tool; INVALID_ARGUMENT for what is there twice, or where it does not belong."""
        body = await json_body(request) if self.takes_body else {}
        if not isinstance(body, dict):
            raise invalid("the body must be an object")
        query = queried(request, *self.query, PROJECT)
        for name in body.keys() & (query.keys() | found.keys()):
            raise invalid(f"{name} must not be in the body and beside it")
        return {**self.given, **body, **query, **found}


def _decoded(raw: str) -> str:
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise invalid("a path must be UTF-8, percent-encoded") from error


def segments_of(scope: Scope) -> list[str]:
    """The path of a request between its slashes, as it was sent; a slash at its end does not count."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    segments = raw.decode("ascii", "replace").split("/")[1:]
    return segments[:-1] if len(segments) > 1 and not segments[-1] else segments


def queried(request: Request, *names: str) -> dict[str, Any]:
    """The query as arguments; INVALID_ARGUMENT for a name that is not one of these or comes twice. Where the key is in
    the query it is none of them."""
    given = [(name, value) for name, value in request.query_params.multi_items() if name not in QUERY_NAMES]
    arguments = dict(given)
    if len(arguments) < len(given) or not arguments.keys() <= set(names):
        raise invalid("the query takes each of these once at the most: " + (", ".join(names) or "nothing"))
    return arguments
