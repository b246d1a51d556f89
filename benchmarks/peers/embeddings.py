"""An endpoint that speaks OpenAI's embeddings, on the loopback: `python -m
benchmarks.peers.embeddings PORT [FOLDER]`.

It runs the model of a folder by the adapter that the service has for local models. Without one its
vectors are bags of hashed words: they cost as little as nothing and are good for measuring time,
never for scoring recall.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks.peers.child import PeerError
from benchmarks.service import free_port
from memsvc.adapters.embeddings import LocalEmbedder
from memsvc.adapters.options import EmbeddingOptions
from tests.endpoints import vector_of

HASHED_DIMENSIONS = 384
START_S = 60.0

Embed = Callable[[Sequence[str]], Awaitable[list[list[float]]]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where it is, without the last part of the path, and how long its vectors are."""

    url: str
    dimensions: int


async def hashed(texts: Sequence[str]) -> list[list[float]]:
    """Vectors without a model."""
    return [vector_of(text, HASHED_DIMENSIONS) for text in texts]


def app(embed: Embed) -> Starlette:
    """The endpoint as an ASGI app."""

    async def embeddings(request: Request) -> JSONResponse:
        asked = await request.json()
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        data = [
            {"object": "embedding", "index": at, "embedding": vector}
            for at, vector in enumerate(await embed(texts))
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return JSONResponse(
            {"object": "list", "model": asked.get("model", ""), "data": data, "usage": usage}
        )

    return Starlette(routes=[Route("/v1/embeddings", embeddings, methods=["POST"])])


@asynccontextmanager
async def endpoint(folder: Path | None) -> AsyncIterator[Endpoint]:
    """One in a process of its own until the block ends. PeerError when it does not start."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "benchmarks.peers.embeddings",
        str(port),
        *([str(folder)] if folder else []),
    ]
    process = await asyncio.create_subprocess_exec(*command)
    url = f"http://127.0.0.1:{port}/v1"
    try:
        yield Endpoint(url, await _dimensions(url, process))
    finally:
        process.terminate()
        await process.wait()


async def _dimensions(url: str, process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(START_S), httpx.AsyncClient(timeout=START_S) as client:
        while process.returncode is None:
            try:
                answer = await client.post(
                    f"{url}/embeddings", json={"input": "-", "model": "local"}
                )
            except httpx.ConnectError:
                await asyncio.sleep(0.1)
                continue
            return len(answer.raise_for_status().json()["data"][0]["embedding"])
    raise PeerError("the endpoint for embeddings did not start")


def main() -> None:
    """Serve."""
    port, *folder = sys.argv[1:]
    embed: Embed = hashed
    if folder:
        embed = asyncio.run(
            LocalEmbedder.open(EmbeddingOptions(provider="local", folder=folder[0]))
        ).embed
    uvicorn.run(
        app(embed),
        host="127.0.0.1",
        port=int(port),
        loop="uvloop",
        http="httptools",
        log_level="error",
    )


if __name__ == "__main__":
    main()
