"""Client of a language model by pydantic-ai, within limits of time and size.

Importing this takes seconds.
"""

import re
from collections.abc import AsyncIterator, Awaitable
from typing import Final, Self, TypeVar

import anyio
import httpx2
import structlog
from pydantic_ai import Agent, ModelRequest, ModelSettings, UnexpectedModelBehavior
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelServerError,
    ModelUnavailableError,
)
from pydantic_ai.models import Model
from pydantic_ai.usage import RequestUsage, RunUsage

from memsvc.adapters.options import ModelOptions
from memsvc.core.call_context import current_call
from memsvc.core.errors import Code, MemsvcError, ModelOutputError, ModelRefusalError, unavailable
from memsvc.core.ports import Meter, Output

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"
ANTHROPIC_URL: Final = "https://api.anthropic.com"
NO_KEY: Final = "none"
"""Key that the clients of both providers send where there is none; they reject an empty one."""
ANSWER_BYTES_MAX: Final = 4 * 2**20
ANSWER_CHARS_READ: Final = 4000
CONNECTIONS_MAX: Final = 20
RETRY_AFTER_S_MAX: Final = 60.0
_CONTENT_REASON: Final = re.compile(
    r"content[_ -]?(?:filter|policy|management)|moderation|safety|usage polic|invalid_prompt"
    r"|context[_ ](?:length|window)|too[_ ]long|above_max_length|too many tokens",
    re.IGNORECASE,
)
"""What an endpoint says in an answer of 400 that is about the text and not about the request."""
REJECT_STATUS: Final = (401, 403, 404)
"""Status codes of an endpoint that rejects the key, or has no such model."""
_TRANSIENT_ERRORS: Final = (
    ModelConnectionError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelServerError,
    ModelUnavailableError,
)

Answer = TypeVar("Answer")

log = structlog.get_logger("memsvc.model")


class ModelClient:
    """The `Llm` that calls an endpoint; `refused` while that rejects the key or the model.

    No error message holds what was sent, the key, or the answer.
    """

    def __init__(self, options: ModelOptions, meter: Meter, section: str) -> None:
        """Create the client, without the environment's proxies and URLs, redirects and tracing."""
        self.model = options.model
        self.refused = False
        self._timeout_ms = options.timeout_ms
        self._meter = meter
        self._section = section
        limits = httpx2.Limits(
            max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX
        )
        self._http = httpx2.AsyncClient(
            transport=_LimitedTransport(httpx2.AsyncHTTPTransport(limits=limits, trust_env=False)),
            headers={"Accept-Encoding": "identity"},
            timeout=options.timeout_ms / 1000,
            trust_env=False,
        )
        self._model = _model(options, self._http)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def complete(self, instructions: str, text: str, *, output_tokens_max: int) -> str:
        """Return what the model writes, not blank.

        Where it hit the token limit, the part before it.
        """
        request = ModelRequest.user_text_prompt(text, instructions=instructions)
        response = await self._request(
            "complete",
            model_request(
                self._model,
                [request],
                model_settings=_settings(output_tokens_max),
                instrument=False,
            ),
        )
        self._count(response.usage)
        if not response.text or not response.text.strip():
            raise self._wrong("returned an answer without text", ModelOutputError)
        return response.text

    async def extract(
        self, instructions: str, text: str, output: type[Output], *, output_tokens_max: int
    ) -> Output:
        """Return what the model finds in the text, as `output`.

        It gets one retry after a bad answer.
        """
        agent = Agent(self._model, output_type=output, instructions=instructions, retries=1)
        result = await self._request(
            "extract", agent.run(text, model_settings=_settings(output_tokens_max))
        )
        self._count(result.usage)
        return result.output

    async def _request(self, name: str, request: Awaitable[Answer]) -> Answer:
        """Return the answer, measured; one of another form is a `ModelOutputError`."""
        with current_call().timer("model", "model", name, model=self.model):
            try:
                with anyio.fail_after(self._timeout_ms / 1000):
                    answer = await request
                self.refused = False
                return answer
            except TimeoutError as error:
                raise self._unavailable(f"did not answer in {self._timeout_ms} ms") from error
            except ModelAPIError as error:
                raise self._translate(error) from error
            # the clients read answers of any shape unchecked, and break in as many ways
            except Exception as error:
                if name == "extract" and isinstance(error, UnexpectedModelBehavior):
                    what = "returned an answer in an unexpected format"
                    raise self._wrong(what, ModelOutputError) from error
                raise self._wrong(
                    f"returned an answer that memsvc cannot read ({type(error).__name__})"
                ) from error

    def _translate(self, error: ModelAPIError) -> MemsvcError:
        status = error.status_code if isinstance(error, ModelHTTPError) else None
        reason = (
            f"answered with status {status}"
            if status
            else f"cannot be reached ({type(error).__name__})"
        )
        if isinstance(error, _TRANSIENT_ERRORS) or (
            status is not None and (status in (408, 409, 425, 429) or status >= 500)
        ):
            after_s = error.retry_after
            return self._unavailable(
                reason, None if after_s is None else min(max(after_s, 0.0), RETRY_AFTER_S_MAX)
            )
        if isinstance(error, ModelAuthenticationError) or status in REJECT_STATUS:
            return self._settings_error(reason)
        body = error.body if isinstance(error, ModelHTTPError) else None
        if isinstance(error, ModelContextWindowExceededError) or (
            status == 400 and _CONTENT_REASON.search(str(body)[:ANSWER_CHARS_READ])
        ):
            return self._wrong("refused to process this text", ModelOutputError)
        if status == 400:
            return self._wrong(reason, ModelRefusalError)
        return self._wrong(reason if status else "returned an error without an HTTP status")

    def _settings_error(self, reason: str) -> ModelRefusalError:
        """Return the error for faulty settings, on which work waits as during an outage."""
        self.refused = True
        self._meter.add("memsvc_model_refusals_total")
        log.error(
            "the model's endpoint rejects the API key or the name of the model",
            section=self._section,
            reason=reason,
        )
        recovery = f"check {self._section}.api_key and the name of the model"
        return ModelRefusalError(
            Code.UNAVAILABLE,
            f"the {self._section} endpoint {reason}",
            recovery=recovery,
            retry_after_s=RETRY_AFTER_S_MAX,
        )

    def _unavailable(self, what: str, retry_after_s: float | None = None) -> MemsvcError:
        return unavailable(f"the {self._section} endpoint {what}", retry_after_s=retry_after_s)

    def _wrong(self, what: str, kind: type[MemsvcError] = MemsvcError) -> MemsvcError:
        return kind(
            Code.INTERNAL_ERROR,
            f"the {self._section} endpoint {what}",
            recovery=f"check the settings in section {self._section}",
        )

    def _count(self, usage: RequestUsage | RunUsage) -> None:
        self._meter.add("memsvc_model_tokens_total", usage.input_tokens, direction="input")
        self._meter.add("memsvc_model_tokens_total", usage.output_tokens, direction="output")


def _settings(output_tokens_max: int) -> ModelSettings:
    # thinking would be paid for out of the same tokens
    return ModelSettings(max_tokens=output_tokens_max, thinking=False)


def _model(options: ModelOptions, http: httpx2.AsyncClient) -> Model:
    """Return the model; no client may look for options in the environment."""
    provider, _, name = options.model.partition(":")
    if provider == "anthropic":
        return _claude_model(options, name, http)
    from openai import AsyncOpenAI  # noqa: PLC0415 one provider's client is enough
    from pydantic_ai.models.openai import (  # noqa: PLC0415
        OpenAIChatModel,
        OpenAIResponsesModel,
        OpenAIResponsesModelSettings,
    )
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    client = AsyncOpenAI(
        api_key=options.key or NO_KEY,
        base_url=options.endpoint_url or DEFAULT_BASE_URL,
        http_client=http,
        timeout=options.timeout_ms / 1000,
        max_retries=options.retries,
    )
    if provider == "openai-chat":
        return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))
    # the requests belong to tenants: the provider is not to store them
    model_settings = OpenAIResponsesModelSettings(openai_store=False)
    return OpenAIResponsesModel(
        name, provider=OpenAIProvider(openai_client=client), settings=model_settings
    )


def _claude_model(options: ModelOptions, name: str, http: httpx2.AsyncClient) -> Model:
    from anthropic import AsyncAnthropic  # noqa: PLC0415 - one provider's client is enough
    from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

    client = AsyncAnthropic(
        api_key=options.key or NO_KEY,
        base_url=options.endpoint_url.removesuffix("/v1") or ANTHROPIC_URL,
        http_client=http,
        timeout=options.timeout_ms / 1000,
        max_retries=options.retries,
    )
    return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=client))


class _LimitedTransport(httpx2.AsyncBaseTransport):
    """Cuts off answers that are far too long, or compressed, and so may be."""

    def __init__(self, transport: httpx2.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._transport.handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        plain = response.headers.pop("Content-Encoding", "identity") == "identity"
        response.stream = _LimitedStream(response.stream, ANSWER_BYTES_MAX if plain else 0)
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, bytes_max: int) -> None:
        self._stream = stream
        self._bytes_max = bytes_max

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._bytes_max
        async for chunk in self._stream:
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()
