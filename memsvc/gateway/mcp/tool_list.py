"""`tools/list`: serialized and compressed once for each set of visible tools.

The SDK would validate and dump all schemas anew for each new client. Over HTTP it gets an empty
list, to answer in the protocol of the request, and the cached list is put in its place.
"""

import zlib
from collections.abc import Sequence
from functools import lru_cache
from struct import pack
from typing import Final

import orjson
from mcp_types import ListToolsResult, ToolAnnotations
from mcp_types import Tool as Listed
from mcp_types.methods import serialize_server_result
from starlette.requests import Request
from starlette.types import Message, Scope, Send

from memsvc.core.frozen import frozen
from memsvc.core.tools import Tool
from memsvc.gateway.dispatch import Catalogue
from memsvc.gateway.mcp.request import Context
from memsvc.gateway.rest import GZIP_HEADER, VARY, takes_gzip, with_length
from memsvc.gateway.schemas import input_schema, listed_output_schema

METHOD: Final = "tools/list"
LISTS_MAX: Final = 64
"""Cached sets of tools: keys that hide the same tools share one."""
LIST: Final = "memsvc.tool_list"
"""Scope key of the list for the response."""
_EMPTY: Final = b'"tools":[]'
_GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"


def listed(tool: Tool) -> Listed:
    """Return the tool as `tools/list` has it."""
    return Listed(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=input_schema(tool),
        output_schema=listed_output_schema(tool),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent,
            open_world_hint=False,
        ),
    )


@frozen
class SerializedList:
    """The member `tools` of a response in its wire form, plain and as part of a deflate stream."""

    plain: bytes
    deflate_part: bytes

    def between(self, before: bytes, after: bytes) -> bytes:
        """Return the whole response."""
        return before + self.plain + after

    def as_gzip(self, before: bytes, after: bytes) -> bytes:
        """Return the whole response as gzip (RFC 1952), without compressing this part again."""
        checksum = zlib.crc32(after, zlib.crc32(self.plain, zlib.crc32(before)))
        size = len(before) + len(self.plain) + len(after)
        parts = (
            _compress(before, zlib.Z_FULL_FLUSH),
            self.deflate_part,
            _compress(after, zlib.Z_FINISH),
        )
        return b"".join((_GZIP_HEAD, *parts, pack("<II", checksum, size)))


def _compress(content: bytes, flush: int) -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflate.compress(content) + deflate.flush(flush)


class ToolLists:
    """Builder and cache of the lists."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._serialized = lru_cache(LISTS_MAX)(self._serialize)

    def answer(self, context: Context, tools: Sequence[Tool]) -> ListToolsResult:
        """Return the list of these tools; an empty one where the response gets the cached list."""
        if isinstance(context.request, Request) and LIST in context.request.scope:
            names = tuple(tool.name for tool in tools)
            context.request.scope[LIST] = self._serialized(names, context.protocol_version)
            return ListToolsResult(tools=[])
        return ListToolsResult(tools=list(map(listed, tools)))

    def _serialize(self, names: tuple[str, ...], version: str) -> SerializedList:
        tools = [listed(tool) for tool in map(self._catalogue.get, names) if tool is not None]
        dumped = ListToolsResult(tools=tools).model_dump(
            by_alias=True, mode="json", exclude_none=True
        )
        plain = b'"tools":' + orjson.dumps(
            serialize_server_result(METHOD, version, dumped)["tools"]
        )
        return SerializedList(plain, _compress(plain, zlib.Z_FULL_FLUSH))


def with_list(scope: Scope, send: Send) -> Send:
    """Return a `send` that replaces the empty list by the cached one, if this request gets one."""
    scope[LIST] = None
    use_gzip = takes_gzip(scope)
    pending: list[Message] = []

    async def send_filled(message: Message) -> None:
        made = scope[LIST]
        if not isinstance(made, SerializedList):
            await send(message)
        elif message["type"] == "http.response.start":
            pending.append(message)
        elif pending:
            before, empty, after = message["body"].partition(_EMPTY)
            if not empty or message.get("more_body", False):
                raise RuntimeError("an answer to tools/list has no place for the list")
            body = made.as_gzip(before, after) if use_gzip else made.between(before, after)
            start = pending.pop()
            more = (VARY, GZIP_HEADER) if use_gzip else (VARY,)
            await send({**start, "headers": with_length(start["headers"], body, *more)})
            await send({**message, "body": body})

    return send_filled
