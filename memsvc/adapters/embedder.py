"""The embedder that the settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import assert_never

from memsvc.adapters.embeddings import HttpEmbedder
from memsvc.adapters.local_embeddings import LocalEmbedder
from memsvc.adapters.options import EmbeddingOptions
from memsvc.core.ports import Embedder


@asynccontextmanager
async def embedder(options: EmbeddingOptions) -> AsyncIterator[Embedder | None]:
    """Open the embedder, or None without a provider; its resources are closed with the block.

    Raises INVALID_ARGUMENT when a local model cannot be loaded; an endpoint is not called before it
    is needed.
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
