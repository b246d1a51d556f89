"""One URL of a model provider that takes and returns JSON, within limits of time and size."""

import math
from typing import Any, Final, Self

import anyio
import httpx2
import orjson

from memsvc.core.errors import Code, MemsvcError

RETRY_AFTER_S_MAX: Final = 60.0
CONNECTIONS_MAX: Final = 20
_TRANSIENT_STATUS: Final = frozenset({408, 409, 425, 429})
_KEY_STATUS: Final = frozenset({401, 403})


class Endpoint:
    """Client of one URL; no error message holds what was sent, the key, or the answer."""

    def __init__(self, name: str, url: str, api_key: str) -> None:
        """Create the client, without the environment's proxies; messages call it `name`."""
        self._name = name
        self._url = url
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self._client = httpx2.AsyncClient(
            headers=headers,
            timeout=None,  # `post` has the time limit for all of it
            limits=httpx2.Limits(
                max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX
            ),
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def post(self, body: Any, *, timeout_s: float, answer_bytes_max: int) -> Any:
        """Post the body and return the JSON of the answer, in one attempt.

        Raises UNAVAILABLE when the endpoint cannot be reached, is busy, broken or too slow, with
        its Retry-After where it sent one; INTERNAL_ERROR when it rejects the request or answers
        anything but JSON of this size.
        """
        try:
            with anyio.fail_after(timeout_s):
                async with self._client.stream(
                    "POST", self._url, content=orjson.dumps(body)
                ) as response:
                    self._check(response)
                    raw = await self._read(response, answer_bytes_max)
        except TimeoutError as error:
            raise self.unavailable(f"did not answer in {timeout_s * 1000:.0f} ms") from error
        except httpx2.HTTPError as error:
            raise self.unavailable(f"cannot be reached ({type(error).__name__})") from error
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            raise self.wrong("answered with something other than JSON") from None

    def unavailable(self, what: str, retry_after_s: float | None = None) -> MemsvcError:
        """Return the error for what may work later."""
        return MemsvcError(
            Code.UNAVAILABLE, f"the {self._name} endpoint {what}", retry_after_s=retry_after_s
        )

    def wrong(self, what: str, *, recovery: str | None = None) -> MemsvcError:
        """Return the error for an endpoint that is not what the settings say."""
        return MemsvcError(
            Code.INTERNAL_ERROR,
            f"the {self._name} endpoint {what}",
            recovery=recovery or f"check the settings in section {self._name}",
        )

    def _check(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status in _TRANSIENT_STATUS or status >= 500:
            raise self.unavailable(f"answered with status {status}", _retry_after_s(response))
        if status in _KEY_STATUS:
            raise self.wrong(
                f"answered with status {status}", recovery=f"check {self._name}.api_key"
            )
        if status != 200:
            raise self.wrong(f"answered with status {status}")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise self.wrong("compressed its answer although the request did not allow it")

    async def _read(self, response: httpx2.Response, size_bytes_max: int) -> bytes:
        raw = bytearray()
        async for chunk in response.aiter_raw():
            raw += chunk
            if len(raw) > size_bytes_max:
                raise self.wrong("returned an answer that is too large for this request")
        return bytes(raw)


def _retry_after_s(response: httpx2.Response) -> float | None:
    """Return Retry-After in seconds.

    None for a date, which depends on two clocks, and for nonsense.
    """
    try:
        seconds = float(response.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return min(seconds, RETRY_AFTER_S_MAX) if math.isfinite(seconds) and seconds >= 0 else None
