"""What stands under URIs and what prompts say, as data: an answer is that of a tool, and needs what the tool needs."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from memsvc.core.scope import Scope

_VARIABLE: Final = re.compile(r"\{(\+?)([a-z_]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """One thing that can be read under a URI of a resource: the values of its variables, and what is told of it in a
    list. `place` is where the list goes on behind it."""

    values: Mapping[str, str]
    place: str
    title: str
    size_bytes: int | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """What there is under the URIs of a resource in one project. Whoever may call the tool may see it, and looking is
    logged as a call of it. `page` finds the next `most` behind a place, in one order; it costs what it finds."""

    tool: str
    page: Callable[[Scope, str, int], Awaitable[Sequence[Readable]]]


@dataclass(frozen=True, slots=True)
class Completion:
    """How the beginning of an argument is completed: by the next values in one project that begin with it, in order.
    `find` gets what was given for the other arguments too. Needs and logs what a `Listing` does."""

    tool: str
    find: Callable[[Scope, str, Mapping[str, str], int], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """How what a tool answers is read under a URI.

    `template` (RFC 6570) names arguments of the tool: `{name}` is one segment, `{+name}` at the end is all the rest and
    stands for a path. The project is such a variable, or given as `?project=NAME`. The text is the member `text` of the
    result, what a function `text` makes of the result, or all of it as JSON where that is ""; bytes where the member
    `encoding` says base64.

    It can be waited for where it is `announced`: whoever changes it tells that (`store/changes.py`); or where it has
    `stamps`, which get what the tool's function would, of several resources of one project, and answer at little cost
    with what tells one state of each from the next: that is looked at while somebody waits.
    """

    template: str
    name: str
    title: str
    description: str
    text: str | Callable[[Mapping[str, Any]], str] = ""
    encoding: str | None = None
    mime_type: str | None = "text/plain"
    announced: bool = False
    stamps: Callable[[Scope, Sequence[Any]], Awaitable[Sequence[object]]] | None = None
    listing: Listing | None = None

    def uri(self, **values: str) -> str:
        """The URI of one resource, the same for the same values however a client wrote it."""

        def value(found: re.Match[str]) -> str:
            given = values[found[2]]
            return quote(given.removeprefix("/"), safe="/") if found[1] else quote(given, safe="")

        return _VARIABLE.sub(value, self.template)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A message for a model that shows what a tool answers. `arguments` are those of the tool that a client may give;
    `text` makes the message from the result."""

    name: str
    title: str
    description: str
    tool: str
    arguments: tuple[str, ...]
    text: Callable[[dict[str, Any]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """A message for a model that says how tools are used, for whoever sees all of them. Each of the `arguments` (with
    what it means) may be given, and stands in the text in place of `{name}`."""

    name: str
    title: str
    description: str
    tools: tuple[str, ...]
    text: str
    arguments: Mapping[str, str] = field(default_factory=dict)

    def message(self, given: Mapping[str, str]) -> str:
        """The text with what was given; what was not stays as the name of the argument."""
        text = self.text
        for name in self.arguments:
            text = text.replace(f"{{{name}}}", given.get(name) or name)
        return text
