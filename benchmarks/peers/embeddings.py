"""An endpoint that speaks OpenAI's embeddings, on the loopback: `python -m
benchmarks.peers.embeddings PORT`.

It runs the sentence encoder that memsvc is installed with, so that every peer with an embedder has
the same vectors.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks.peers.child import PeerError
from benchmarks.service import free_port
from memsvc.adapters.options import EmbeddingOptions
from memsvc.adapters.sentence_encoder import SentenceEncoder

START_S = 300.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where it is, without the last part of the path, and how long its vectors are."""

    url: str
    dimensions: int


def app() -> Starlette:
    """The endpoint as an ASGI app."""
    encoder = SentenceEncoder(EmbeddingOptions())

    async def embeddings(request: Request) -> JSONResponse:
        asked = await request.json()
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        data = [
            {"object": "embedding", "index": at, "embedding": vector}
            for at, vector in enumerate(await encoder.embed(texts))
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return JSONResponse(
            {"object": "list", "model": asked.get("model", ""), "data": data, "usage": usage}
        )

    return Starlette(routes=[Route("/v1/embeddings", embeddings, methods=["POST"])])


@asynccontextmanager
async def endpoint() -> AsyncIterator[Endpoint]:
    """One in a process of its own until the block ends. PeerError when it does not start."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.peers.embeddings", str(port)]
    process = await asyncio.create_subprocess_exec(*command)
    url = f"http://127.0.0.1:{port}/v1"
    try:
        yield Endpoint(url, await _dimensions(url, process))
    finally:
        process.terminate()
        await process.wait()


async def _dimensions(url: str, process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(START_S), httpx2.AsyncClient(timeout=START_S) as client:
        while process.returncode is None:
            try:
                answer = await client.post(
                    f"{url}/embeddings", json={"input": "-", "model": "local"}
                )
            except httpx2.ConnectError:
                await asyncio.sleep(0.1)
                continue
            return len(answer.raise_for_status().json()["data"][0]["embedding"])
    raise PeerError("the endpoint for embeddings did not start")


if __name__ == "__main__":
    uvicorn.run(
        app(),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        log_level="error",
    )
