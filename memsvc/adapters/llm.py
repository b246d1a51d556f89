"""The language model that the settings name."""

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field, field_validator

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Meter
from memsvc.core.urls import absolute_url

if TYPE_CHECKING:
    from memsvc.adapters.model_client import ModelClient

KEYS: Final = {
    "openai": "OPENAI_API_KEY",
    "openai-chat": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
}
"""Environment variable that holds a provider's key."""
MODEL_PREFIXES: Final = tuple(f"{provider}:" for provider in KEYS)
_DEFAULT_HOSTS: Final = frozenset(("", "api.openai.com", "api.anthropic.com"))
_CALLS: Final = re.compile(r"(?:/v1)?/(?:responses|chat/completions|messages)$")


class ModelOptions(BaseModel):
    """Options of the language model; without one, summaries and facts go by rules."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(
        "",
        max_length=200,
        pattern=r"^(?:(?:openai|openai-chat|anthropic):\S+)?$",
        description="openai:NAME (Responses API), openai-chat:NAME (chat completions) or"
        " anthropic:NAME; empty: none",
    )
    base_url: str = Field(
        "",
        description="URL of an endpoint that speaks the same, /v1 left out or not; empty: the"
        " provider's own",
    )
    api_key: str = Field(
        "",
        repr=False,
        description="key of the endpoint; empty: OPENAI_API_KEY or ANTHROPIC_API_KEY, if set",
    )
    timeout_ms: int = Field(
        60_000, ge=1, description="how long one answer may take, retries included"
    )
    retries: int = Field(
        2, ge=0, le=20, description="further attempts when the endpoint is busy or out of reach"
    )

    @field_validator("base_url")
    @classmethod
    def _absolute(cls, value: str) -> str:
        return absolute_url(value)

    @property
    def endpoint_url(self) -> str:
        """Return the URL of the API, up to and with `/v1`; "" for the provider's own.

        A URL of one call, such as `https://host/v1/responses`, stands for its API. One without a
        version gets `/v1`, but a call's URL is used as it is:
        `https://host/api/v3/chat/completions` is the API `https://host/api/v3`.
        """
        path = urlsplit(self.base_url).path
        call = _CALLS.search(path)
        if not self.base_url or path.endswith("/v1"):
            return self.base_url
        if call is None:
            return f"{self.base_url}/v1"
        return self.base_url[: -len(call[0])] + ("/v1" if call[0].startswith("/v1") else "")

    def within(self, seconds: float, default: str) -> Self:
        """Return the same model with a time limit of at most these seconds.

        `default` is its name where there is none but an endpoint or a key.
        """
        name = self.model or (default if self.base_url or self.api_key else "")
        timeout_ms = max(1, min(self.timeout_ms, int(seconds * 1000)))
        return self.model_copy(update={"model": name, "timeout_ms": timeout_ms})

    @property
    def key(self) -> str:
        """Return the key that is sent, from here or from the environment; "" for none."""
        return self.api_key or os.environ.get(KEYS.get(self.model.partition(":")[0], ""), "")


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
