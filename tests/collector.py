"""A collector of traces on the loopback that takes what OTLP over HTTP brings, with the faults that
tests ask for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

Fault = Literal["fine", "hang up", "silent", "broken", "refuses", "garbage"]


@dataclass(frozen=True)
class Seen:
    """A span as it was sent, its numbers in hexadecimal."""

    name: str
    trace: str
    id: str
    parent: str
    links: tuple[str, ...]
    failed: bool
    attributes: dict[str, Any]


@dataclass
class Collector:
    """What was sent to it so far; `fault` is how it answers."""

    port: int = 0
    fault: Fault = "fine"
    spans: list[Seen] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def until(self, *names: str, batches: int = 0) -> list[Seen]:
        """The spans, once there are some of these names, or so many batches were sent."""
        async with asyncio.timeout(20):
            while not {*names} <= {span.name for span in self.spans} or len(self.bodies) < batches:
                self.came.clear()
                await self.came.wait()
        return self.spans

    def one(self, name: str) -> Seen:
        """The only span of a name."""
        (found,) = (span for span in self.spans if span.name == name)
        return found

    def above(self, span: Seen) -> list[str]:
        """The names of the spans that a span is inside of, the nearest first."""
        found = next((one for one in self.spans if one.id == span.parent), None)
        return [] if found is None else [found.name, *self.above(found)]

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                size = next(
                    int(line[15:])
                    for line in head.split("\r\n")
                    if line.lower().startswith("content-length:")
                )
                self._keep(head, await reader.readexactly(size))
                match self.fault:
                    case "hang up":
                        return
                    case "silent":
                        await reader.read()
                        return
                    case "garbage":
                        writer.write(b"\x00\xff no HTTP \r\n\r\n")
                        return
                status = {"fine": 200, "broken": 503, "refuses": 401}[self.fault]
                writer.write(f"HTTP/1.1 {status} so\r\nContent-Length: 2\r\n\r\n{{}}".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _keep(self, head: str, body: bytes) -> None:
        self.heads.append(head)
        self.bodies.append(body)
        if self.fault == "fine":
            self.spans += _spans(body)
        self.came.set()


def _spans(body: bytes) -> list[Seen]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        Seen(
            name=span.name,
            trace=span.trace_id.hex(),
            id=span.span_id.hex(),
            parent=span.parent_span_id.hex(),
            links=tuple(link.span_id.hex() for link in span.links),
            failed=span.status.code == 2,
            attributes={
                one.key: getattr(one.value, one.value.WhichOneof("value"))
                for one in span.attributes
            },
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


@asynccontextmanager
async def collecting(fault: Fault = "fine") -> AsyncIterator[Collector]:
    """A collector at work."""
    collector = Collector(fault=fault)
    server = await asyncio.start_server(collector.take, "127.0.0.1", 0)
    collector.port = server.sockets[0].getsockname()[1]
    try:
        yield collector
    finally:
        server.close()
