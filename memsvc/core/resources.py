"""MCP resources and prompts as data; their content is the result of a tool.

They require that tool's permission."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from memsvc.core.frozen import frozen, frozen_by_keyword
from memsvc.core.scope import Scope

_VARIABLE: Final = re.compile(r"\{(\+?)([a-z_]+)\}")


@frozen_by_keyword
class ListedResource:
    """One resource in a list: the values of its URI variables and its listed properties.

    `place` is the cursor after it."""

    values: Mapping[str, str]
    place: str
    title: str
    size_bytes: int | None = None
    updated_at: datetime | None = None


@frozen
class ResourceListing:
    """List of a resource's URIs in one project.

    It requires and is logged as a call of the tool. `page` finds the next `most` after a place, in
    one order; its cost is proportional to what it finds."""

    tool: str
    page: Callable[[Scope, str, int], Awaitable[Sequence[ListedResource]]]


@frozen
class Completion:
    """Completion of an argument from its prefix, with values in one project, in order.

    `find` gets the other arguments given so far too. Requires and logs what a `ResourceListing`
    does."""

    tool: str
    find: Callable[[Scope, str, Mapping[str, str], int], Awaitable[Sequence[str]]]


@frozen_by_keyword
class Resource:
    """Tool result that can be read under a URI.

    `template` (RFC 6570) names arguments of the tool: `{name}` is one segment, `{+name}` at the end
    is all the rest and stands for a path. The project is such a variable, or given as
    `?project=NAME`. The text is the member `text` of the result, the output of a function `text` of
    the result, or all of it as JSON where that is ""; bytes where the member `encoding` is base64.

    A client can subscribe where it has `stamps`, which get the arguments of several resources of
    one project and return at little cost a value that changes with each state. That is polled while
    there are subscribers, unless it `has_notifications`: then the writer announces changes
    (`store/changes.py`)."""

    template: str
    name: str
    title: str
    description: str
    text: str | Callable[[Mapping[str, Any]], str] = ""
    encoding: str | None = None
    mime_type: str | None = "text/plain"
    has_notifications: bool = False
    stamps: Callable[[Scope, Sequence[Any]], Awaitable[Sequence[object]]] | None = None
    listing: ResourceListing | None = None

    def uri(self, **values: str) -> str:
        """Return the URI of one resource in canonical form."""

        def value(found: re.Match[str]) -> str:
            text = values[found[2]]
            return quote(text.removeprefix("/"), safe="/") if found[1] else quote(text, safe="")

        return _VARIABLE.sub(value, self.template)


@frozen_by_keyword
class Prompt:
    """Message for a model that presents the result of a tool.

    `arguments` are those of the tool that a client may give; `text` makes the message from the
    result."""

    name: str
    title: str
    description: str
    tool: str
    arguments: tuple[str, ...]
    text: Callable[[dict[str, Any]], str]


@frozen_by_keyword
class Guide:
    """Message for a model that explains how tools are used, for callers that see all of them.

    Each of the `arguments` (with its description) may be given, and replaces `{name}` in the
    text."""

    name: str
    title: str
    description: str
    tools: tuple[str, ...]
    text: str
    arguments: Mapping[str, str] = field(default_factory=dict)

    def message(self, args: Mapping[str, str]) -> str:
        """Return the text with the given arguments; a missing one stays as its name."""
        text = self.text
        for name in self.arguments:
            text = text.replace(f"{{{name}}}", args.get(name) or name)
        return text
