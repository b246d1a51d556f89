"""The language model that the settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from anyio import to_thread

from memsvc.adapters.options import KEYS, ModelOptions
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Meter

if TYPE_CHECKING:
    from memsvc.adapters.model_client import ModelClient

_DEFAULT_HOSTS: Final = frozenset(("", "api.openai.com", "api.anthropic.com"))


@asynccontextmanager
async def llm(
    options: ModelOptions, meter: Meter, section: str = "model"
) -> AsyncIterator["ModelClient | None"]:
    """Open the model, or None without a name; its connections are closed with the block.

    `section` is its section of the settings, for messages. Raises INVALID_ARGUMENT where the
    packages that it needs are missing, or the key that a provider's own endpoint always requires;
    an endpoint is not called before it is needed. The model packages are imported here and not
    before: they take seconds and tens of megabytes.
    """
    if not options.model:
        yield None
        return
    if not options.key and (urlsplit(options.base_url).hostname or "") in _DEFAULT_HOSTS:
        variable = KEYS[options.model.partition(":")[0]]
        raise MemsvcError(
            Code.INVALID_ARGUMENT,
            f"the model of {section} has no key",
            recovery=f"set {section}.api_key or {variable}",
        )
    async with await to_thread.run_sync(_client, options, meter, section) as client:
        yield client


def _client(options: ModelOptions, meter: Meter, section: str) -> "ModelClient":
    try:
        from memsvc.adapters.model_client import ModelClient  # noqa: PLC0415
    except ImportError as error:
        raise MemsvcError(
            Code.INVALID_ARGUMENT,
            "a model needs packages that are missing",
            recovery="install memsvc[model]",
        ) from error
    return ModelClient(options, meter, section)
