"""Options of models, embeddings, reranking and traces."""

import os
import re
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from memsvc.core.errors import invalid
from memsvc.core.options import AbsoluteUrl, Count, Options, Share

KEYS: Final = {
    "openai": "OPENAI_API_KEY",
    "openai-chat": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
}
"""Environment variable that holds a provider's key."""
MODEL_PREFIXES: Final = tuple(f"{provider}:" for provider in KEYS)
_CALLS: Final = re.compile(r"(?:/v1)?/(?:responses|chat/completions|messages)$")
DEFAULT_API_HOST: Final = "api.openai.com"
DIMENSIONS_MAX: Final = 8192
SIGNAL_PATH: Final = "/v1/traces"
KEY_ABOUT: Final = (
    "API key of the endpoint, or a reference to it: env:NAME or file:PATH; if empty, no key is sent"
)
EMBEDDINGS_OFF: Final = (
    "search by meaning is off, so search uses keywords only; to turn it on, run `memsvc"
    " embeddings use bundled`, or replace bundled with openai, ollama, a URL or a folder"
)
RERANK_OFF: Final = (
    "reordering of search results by a model is off; to turn it on, run `memsvc reranker"
    " use cohere`, or replace cohere with a URL"
)
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+=[\x21-\x7e][\x20-\x7e]*")


class ModelOptions(Options):
    """Options of the language model.

    Without a model, built-in rules extract facts and write summaries."""

    model: str = Field(
        "",
        max_length=200,
        pattern=r"^(?:(?:openai|openai-chat|anthropic):\S+)?$",
        description="openai:NAME (Responses API), openai-chat:NAME (chat completions) or"
        " anthropic:NAME; if empty, no model is used",
    )
    base_url: AbsoluteUrl = Field(
        "",
        description="URL of a compatible endpoint, with or without /v1; if empty, the provider's"
        " own endpoint is used",
    )
    api_key: str = Field(
        "",
        repr=False,
        description="API key of the endpoint; if empty, it is read from the environment variable"
        " OPENAI_API_KEY or ANTHROPIC_API_KEY",
    )
    timeout_ms: Count = Field(
        60_000, description="time limit for one answer of the model, including retries"
    )
    retries: int = Field(
        2, ge=0, le=20, description="number of retries if the endpoint is busy or unreachable"
    )

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


def read_key(section: str, text: str) -> str:
    """Return the key that `api_key` of a section is, or that its variable or file holds.

    Raises INVALID_ARGUMENT where there is none.
    """
    kind, _, place = text.partition(":")
    if kind == "env":
        key = os.environ.get(place, "").strip()
    elif kind == "file":
        try:
            key = Path(place).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            key = ""
    else:
        return text
    if not (key and key.isascii() and key.isprintable()):
        raise invalid(
            f"{section}.api_key refers to {text}, which is missing or does not contain a key",
            recovery="set the environment variable or create the file that contains the API key",
        )
    return key


class EmbeddingOptions(Options):
    """Options of embeddings, the vectors that search by meaning compares.

    Without a provider, recall and search use keywords only. For the bundled encoder, only
    `provider` and `chars_max` have an effect."""

    provider: Literal["", "bundled", "openai", "local"] = Field(
        "bundled",
        description="bundled: the sentence encoder that comes with memsvc; openai: an endpoint"
        " compatible with OpenAI's embeddings API; local: a model in `folder`; empty:"
        " no embeddings",
    )
    base_url: AbsoluteUrl = Field(
        "https://api.openai.com/v1",
        description="URL of the embeddings endpoint, without /embeddings at the end",
    )
    api_key: str = Field("", repr=False, description=KEY_ABOUT)
    model: str = Field(
        "text-embedding-3-small", min_length=1, max_length=200, description="name of the model"
    )
    dimensions: int = Field(
        0,
        ge=0,
        le=DIMENSIONS_MAX,
        description="number of dimensions of a vector; 0 means the model's own number",
    )
    batch_size: int = Field(
        32,
        ge=1,
        le=2048,
        description="maximum number of texts in one request; more texts take several requests",
    )
    chars_max: int = Field(
        8000,
        ge=100,
        le=100_000,
        description="maximum number of characters to embed of each text; the rest of the text is"
        " ignored",
    )
    timeout_ms: Count = Field(
        60_000, description="time limit for one embedding request, including retries"
    )
    question_timeout_ms: Count = Field(
        1500,
        description="how long a search waits for the embedding of its question; after that, it uses"
        " keywords only",
    )
    retries: int = Field(
        4, ge=0, le=20, description="number of retries if the endpoint is busy or unreachable"
    )
    document_prefix: str = Field(
        "",
        max_length=1000,
        description="prefix added to each stored text before embedding, such as `passage: `",
    )
    question_prefix: str = Field(
        "",
        max_length=1000,
        description="prefix added to each question before embedding, such as `query: `",
    )
    folder: str = Field(
        "", description="folder of the local model, with tokenizer.json and model.onnx"
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.provider == "openai" and not self.base_url:
            raise ValueError("provider openai needs base_url")
        if (
            self.provider == "openai"
            and not self.api_key
            and urlsplit(self.base_url).hostname == DEFAULT_API_HOST
        ):
            raise ValueError(f"provider openai at {DEFAULT_API_HOST} needs api_key")
        if self.provider == "local" and not self.folder:
            raise ValueError("provider local needs folder")
        return self

    def document(self, text: str) -> str:
        """Return a stored text as the model reads it."""
        return _clean(f"{self.document_prefix}{text[: self.chars_max]}")

    def question(self, text: str) -> str:
        """Return a question as the model reads it."""
        return _clean(f"{self.question_prefix}{text[: self.chars_max]}")

    def model_name(self, name: str, dimensions: int) -> str:
        """Return what marks vectors as comparable: provider, model, length, and text prefix."""
        parts = [self.provider, name, str(dimensions)] if dimensions else [self.provider, name]
        if self.document_prefix:
            parts.append(blake2b(self.document_prefix.encode(), digest_size=4).hexdigest())
        return "/".join(parts)


class RerankOptions(Options):
    """Options of the model that reorders search results."""

    endpoint: AbsoluteUrl = Field(
        "",
        description="URL of the rerank API, such as https://api.cohere.com/v2/rerank; if empty,"
        " results are not reordered",
    )
    model: str = Field("rerank-v3.5", min_length=1, max_length=200, description="name of the model")
    api_key: str = Field("", repr=False, description=KEY_ABOUT)
    timeout_ms: Count = Field(
        6000,
        description="how long a search waits for the reordered results; after that, the results"
        " keep their original order",
    )


class TracingOptions(Options):
    """Options of traces, which show where each call spent its time."""

    endpoint: AbsoluteUrl = Field(
        "",
        description=f"URL of an OTLP/HTTP collector, with or without {SIGNAL_PATH}; if empty,"
        " tracing is off",
    )
    headers: tuple[str, ...] = Field(
        (),
        repr=False,
        description="HTTP headers for the collector, each as NAME=VALUE; values are kept secret",
    )
    service_name: str = Field(
        "memsvc", min_length=1, max_length=200, description="name of this service in traces"
    )
    sample_ratio: Share = Field(
        1.0, description="share of traces to record, from 0 (none) to 1 (all)"
    )
    timeout_ms: Count = Field(
        5000,
        description="time limit for sending a batch of spans (the timed steps of calls), and for"
        " sending the remaining spans at shutdown",
    )
    flush_every_s: float = Field(
        2.0,
        gt=0,
        le=300,
        description="interval between sending two batches of spans (the timed steps of calls)",
    )
    queue_max: int = Field(
        4096,
        ge=1,
        le=1_000_000,
        description="maximum number of spans (timed steps of calls) waiting to be sent; if there"
        " are more, the oldest are dropped",
    )

    @field_validator("headers")
    @classmethod
    def _named(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_HEADER.fullmatch(header) for header in value):
            raise ValueError("each header must have the form NAME=VALUE")
        return value

    @property
    def url(self) -> str:
        """Return the URL that batches are sent to."""
        return self.endpoint + ("" if urlsplit(self.endpoint).path else SIGNAL_PATH)


def _clean(text: str) -> str:
    """Remove what JSON cannot carry; never return an empty text, which providers reject."""
    return text.encode(errors="replace").decode() if text.strip() else "-"
