"""Opens the embedder that the settings ask for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import assert_never

from memsvc.adapters.embeddings import EmbeddingOptions, HttpEmbedder
from memsvc.adapters.local_embeddings import LocalEmbedder
from memsvc.core.ports import Embedder


@asynccontextmanager
async def embedder(options: EmbeddingOptions) -> AsyncIterator[Embedder | None]:
    """The embedder, or None without a provider; what it holds open is closed when the block ends.

    INVALID_ARGUMENT when a local model cannot be loaded; an endpoint is not asked before it is needed.
    """
    match options.provider:
        case "":
            yield None
        case "openai":
            async with HttpEmbedder.endpoint(options) as endpoint:
                yield HttpEmbedder(endpoint, options)
        case "local":
            yield await LocalEmbedder.load(options)
        case _:
            assert_never(options.provider)
