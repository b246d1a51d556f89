"""A better order comes in time and whole, or not at all."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import ValidationError

from memsvc.adapters.models import TEXT_CHARS_MAX, reranker
from memsvc.adapters.options import RerankOptions
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.ports import Reranker
from tests.endpoints import Fault, Provider, provider

pytestmark = pytest.mark.anyio
KEY = "secret-key"
TEXTS = ["a secret about trains", "marzipan", "trains to Vienna"]
FAULTS: tuple[Fault, ...] = (
    "hang up", "slow", "busy", "busy for an hour", "broken", "refuses the key", "refuses", "wrong count", "NaN",
    "index twice", "text for numbers", "garbage", "a list", "truncated", "huge", "compressed", "redirect",
)  # fmt: skip


@pytest.fixture
async def there() -> AsyncIterator[Provider]:
    async with provider() as made:
        yield made


@asynccontextmanager
async def asking(there: Provider, **options: Any) -> AsyncIterator[Reranker]:
    async with reranker(
        RerankOptions(endpoint=f"{there.url}/v2/rerank", api_key=KEY, **options)
    ) as made:
        assert made is not None
        yield made


async def test_each_text_has_its_score_in_the_order_of_the_texts(there: Provider) -> None:
    async with asking(there, model="m") as scores:
        assert await scores("Which trains go to Vienna?", TEXTS) == pytest.approx(
            [1 / 3, 0.0, 2 / 3], abs=0.2
        )
    (call,) = there.calls
    assert call.path == "/v2/rerank"
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert call.body == {
        "model": "m",
        "query": "Which trains go to Vienna?",
        "documents": TEXTS,
        "top_n": 3,
    }


async def test_no_texts_need_no_call(there: Provider) -> None:
    async with asking(there) as scores:
        assert await scores("?", []) == []
    assert there.calls == []


async def test_long_and_broken_texts_are_sent_as_far_as_they_can_be(there: Provider) -> None:
    async with asking(there) as scores:
        assert len(await scores("why \ud800", ["x" * 100_000])) == 1
    assert there.calls[0].body["query"] == "why ?"
    assert len(there.calls[0].body["documents"][0]) == TEXT_CHARS_MAX


@pytest.mark.parametrize("fault", FAULTS)
async def test_whatever_goes_wrong_is_unavailable_at_once_and_tells_nothing(
    there: Provider, fault: Fault
) -> None:
    there.always = fault
    async with asking(there, timeout_ms=30 if fault == "slow" else 5000) as scores:
        with pytest.raises(MemsvcError) as error:
            await scores("the secret question", TEXTS)
    assert error.value.code is Code.UNAVAILABLE
    assert "secret" not in f"{error.value.body()}"
    assert len(there.calls) == 1


async def test_without_an_endpoint_there_is_no_reranker() -> None:
    async with reranker(RerankOptions()) as none:
        assert none is None


@pytest.mark.parametrize(
    "options", [{"endpoint": "example.com/rerank"}, {"candidates": 0}, {"timeout_ms": 0}]
)
def test_options_that_cannot_be_right_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RerankOptions.model_validate(options)


def test_the_key_is_not_shown() -> None:
    assert KEY not in repr(RerankOptions(api_key=KEY))
