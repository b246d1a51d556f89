"""Vectors from an endpoint are what was asked for, or an error that gives nothing away."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import ValidationError

from memsvc.adapters import embeddings
from memsvc.adapters.embeddings import HttpEmbedder, batches, embedder, unit
from memsvc.adapters.options import EmbeddingOptions
from memsvc.adapters.sentence_encoder import SentenceEncoder
from memsvc.core.errors import Code, MemsvcError
from tests.endpoints import DIMENSIONS, Fault, Provider, provider, vector_of

pytestmark = pytest.mark.anyio
KEY = "sk-very-secret"
TEXT = "the secret text of somebody"
WRONG: tuple[Fault, ...] = (
    "wrong count", "wrong dimension", "NaN", "infinite", "zero", "index twice", "index is text", "text for numbers",
    "garbage", "a list", "huge", "compressed", "redirect", "refuses", "refuses the key",
)  # fmt: skip
PASSING: tuple[Fault, ...] = ("hang up", "busy", "busy for 0 s", "broken", "truncated")


@pytest.fixture
async def there() -> AsyncIterator[Provider]:
    async with provider() as made:
        yield made


@asynccontextmanager
async def asking(there: Provider, **options: Any) -> AsyncIterator[HttpEmbedder]:
    chosen = EmbeddingOptions(
        **(
            {"provider": "openai", "base_url": f"{there.url}/v1/", "api_key": KEY, "model": "m"}
            | options
        )
    )
    async with HttpEmbedder.endpoint(chosen) as endpoint:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(embeddings, "BACKOFF_S", 0.001)
            yield HttpEmbedder(endpoint, chosen)


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_texts_become_vectors_in_their_order(there: Provider) -> None:
    async with asking(there) as model:
        vectors = await model.embed(["trains to Vienna", "a train in Vienna", "marzipan"])
        question = await model.embed_question("Vienna by train?")
    assert vectors[2] == pytest.approx(vector_of("marzipan"))
    assert cosine(question, vectors[0]) > 0.9
    assert cosine(question, vectors[2]) < 0.5
    assert there.keys == [f"Bearer {KEY}"] * 2
    assert [call.path for call in there.calls] == ["/v1/embeddings"] * 2
    assert there.calls[0].body == {
        "model": "m",
        "input": ["trains to Vienna", "a train in Vienna", "marzipan"],
        "encoding_format": "float",
    }


async def test_what_the_options_say_is_what_is_sent(there: Provider) -> None:
    chosen = {
        "dimensions": 12,
        "chars_max": 100,
        "document_prefix": "passage: ",
        "question_prefix": "query: ",
    }
    async with asking(there, **chosen, api_key="") as model:
        (vector,) = await model.embed(["x" * 500])
        await model.embed_question("why \ud800?")
        await model.embed([" "])
    assert len(vector) == 12
    assert there.texts == ["passage: " + "x" * 100, "query: why ??", "passage:  "]
    assert there.calls[0].body["dimensions"] == 12
    assert there.keys == [None] * 3


async def test_a_text_without_anything_in_it_is_not_sent_empty(there: Provider) -> None:
    async with asking(there) as model:
        assert len(await model.embed(["", " \n"])) == 2
        assert await model.embed([]) == []
    assert there.texts == ["-", "-"]


@pytest.mark.parametrize("fault", ["shuffled", "no index"])
async def test_an_answer_may_come_in_another_order_or_without_numbers(
    there: Provider, fault: Fault
) -> None:
    there.plan.append(fault)
    async with asking(there) as model:
        vectors = await model.embed(["walrus", "kumquat", "zeppelin"])
    assert vectors[0] == pytest.approx(vector_of("walrus"))


async def test_many_texts_go_in_batches(there: Provider) -> None:
    async with asking(there, batch_size=3) as model:
        vectors = await model.embed([f"word{number}" for number in range(8)])
    assert [len(call.body["input"]) for call in there.calls] == [3, 3, 2]
    assert vectors[7] == pytest.approx(vector_of("word7"))


def test_a_batch_has_no_more_characters_than_fit_unless_one_text_alone_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embeddings, "BATCH_CHARS_MAX", 10)
    options = EmbeddingOptions(batch_size=10)
    texts = ["a" * 4, "b" * 4, "c" * 20, "d", "e" * 9]
    assert list(batches(texts, options)) == [
        ["a" * 4, "b" * 4],
        ["c" * 20],
        ["d", "e" * 9],
    ]
    assert list(batches([], options)) == []


def test_a_vector_is_brought_to_length_one_however_great_it_is() -> None:
    assert unit([3.0, 4.0]) == pytest.approx([0.6, 0.8])
    assert unit([3e300, 4e300]) == pytest.approx([0.6, 0.8])
    assert unit([3e-300, 4e-300]) == pytest.approx([0.6, 0.8])
    for broken in ([0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [math.inf, -math.inf]):
        assert unit(broken) is None


@pytest.mark.parametrize("fault", PASSING)
async def test_what_passes_is_tried_again_until_it_works(there: Provider, fault: Fault) -> None:
    there.plan.extend([fault, fault])
    async with asking(there) as model:
        assert len(await model.embed([TEXT])) == 1
    assert len(there.calls) == 3


@pytest.mark.parametrize("fault", PASSING)
async def test_what_does_not_pass_is_unavailable_after_the_last_attempt(
    there: Provider, fault: Fault
) -> None:
    there.always = fault
    async with asking(there, retries=2) as model:
        await refused(model.embed([TEXT]), Code.UNAVAILABLE)
    assert len(there.calls) == 3


@pytest.mark.parametrize("fault", WRONG)
async def test_a_wrong_answer_is_named_without_what_was_in_it_and_not_asked_for_again(
    there: Provider, fault: Fault
) -> None:
    there.always = fault
    async with asking(there, dimensions=DIMENSIONS) as model:
        await refused(model.embed([TEXT, TEXT]), Code.INTERNAL_ERROR)
        await refused(model.embed_question(TEXT), Code.INTERNAL_ERROR)
    assert len(there.calls) == 2


async def refused(asked: Any, code: Code) -> MemsvcError:
    with pytest.raises(MemsvcError) as error:
        await asked
    assert error.value.code is code
    told = f"{error.value.body()} {error.value!r}"
    assert "secret" not in told
    return error.value


async def test_the_dimension_is_learnt_from_the_first_answer(there: Provider) -> None:
    async with asking(there) as model:
        there.plan.append("wrong dimension")
        await refused(model.embed([TEXT, TEXT]), Code.INTERNAL_ERROR)
        await model.embed([TEXT])
        there.plan.append("other dimension")
        await refused(model.embed([TEXT]), Code.INTERNAL_ERROR)


async def test_a_slow_endpoint_is_waited_for_no_longer_than_told(there: Provider) -> None:
    there.always = "slow"
    async with asking(there, timeout_ms=600, question_timeout_ms=500) as model:
        error = await refused(model.embed_question(TEXT), Code.UNAVAILABLE)
        assert error.message == "the embeddings endpoint did not answer in 500 ms"
        await refused(model.embed([TEXT]), Code.UNAVAILABLE)
    assert len(there.calls) == 2


async def test_a_question_is_asked_once(there: Provider) -> None:
    there.always = "broken"
    async with asking(there) as model:
        await refused(model.embed_question(TEXT), Code.UNAVAILABLE)
    assert len(there.calls) == 1


async def test_an_endpoint_that_wants_to_be_left_alone_for_long_is_left_alone(
    there: Provider,
) -> None:
    there.always = "busy for an hour"
    async with asking(there) as model:
        error = await refused(model.embed([TEXT]), Code.UNAVAILABLE)
    assert len(there.calls) == 1
    assert error.retry_after_s == 60


async def test_nobody_listening_is_unavailable() -> None:
    async with provider() as gone:
        pass
    async with asking(gone, retries=1) as model:
        await refused(model.embed([TEXT]), Code.UNAVAILABLE)


async def test_no_proxy_of_the_environment_sees_a_text(
    there: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with asking(there) as model:
        assert len(await model.embed([TEXT])) == 1


async def test_a_call_that_is_cancelled_ends_at_once(there: Provider) -> None:
    there.always = "slow"
    async with asking(there) as model:
        task = asyncio.create_task(model.embed([TEXT]))
        await there.called.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_models_whose_vectors_cannot_be_compared_have_other_names() -> None:
    def name(**options: Any) -> str:
        chosen = EmbeddingOptions(provider="openai", api_key="k", **options)
        return chosen.model_name(chosen.model, chosen.dimensions)

    assert name(model="m") == "openai/m"
    assert name(model="m", dimensions=256) == "openai/m/256"
    names = {
        name(),
        name(model="m"),
        name(dimensions=5),
        name(document_prefix="a"),
        name(document_prefix="b"),
    }
    assert len(names) == 5
    assert name(question_prefix="query: ") == name()


async def test_the_options_choose_the_embedder(there: Provider) -> None:
    async with embedder(EmbeddingOptions()) as bundled:
        assert isinstance(bundled, SentenceEncoder)
    async with embedder(EmbeddingOptions(provider="")) as none:
        assert none is None
    async with embedder(EmbeddingOptions(provider="openai", base_url=there.url)) as model:
        assert model is not None
        assert len((await model.embed(["x"]))[0]) == DIMENSIONS


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "api.example.com"},
        {"base_url": "ftp://example.com"},
        {"base_url": "https://user:key@example.com/v1"},
        {"base_url": "https://example.com/v1?key=1"},
        {"base_url": "https://example.com:99999/v1"},
        {"base_url": ""},
        {"provider": "local"},
        {"provider": "other"},
        {"dimensions": -1},
        {"batch_size": 0},
    ],
)
def test_options_that_cannot_be_right_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        EmbeddingOptions.model_validate({"provider": "openai"} | options)


def test_the_key_is_not_shown() -> None:
    assert KEY not in repr(EmbeddingOptions(api_key=KEY))
