"""The encoder that comes with memsvc: what it reads, what it refuses, and what is found by it at
once."""

import asyncio
import os
import sys
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from memsvc.adapters import sentence_encoder
from memsvc.adapters.options import EmbeddingOptions
from memsvc.adapters.sentence_encoder import SentenceEncoder
from memsvc.core.errors import Code, MemsvcError
from memsvc.core.vectors import cosines, pack, units
from tests.door import Door
from tests.styles.turns.talk import ask, memory, say

pytestmark = pytest.mark.anyio


async def alike(encoder: SentenceEncoder, first: str, second: str) -> float:
    one, other = await encoder.embed([first, second])
    return cosines(one, units(pack([other])[0], len(other)))[0]


@pytest.mark.parametrize(
    ("said", "asked", "else_asked"),
    [
        (
            "The key to the greenhouse is under the blue pot.",
            "Wo liegt der Schlüssel zum Gewächshaus?",
            "Wann fährt der nächste Zug nach Bern?",
        ),
        (
            "Mi hermana se mudó a Lisboa el año pasado.",
            "Where does my sister live now?",
            "What should I feed the cat?",
        ),
        ("我对花生过敏。", "What am I allergic to?", "Which train did we take?"),
        ("犬の名前はポチです。", "Comment s'appelle le chien ?", "Combien coûte le loyer ?"),
    ],
)
async def test_a_question_in_another_language_is_nearer_than_one_about_something_else(
    encoder: SentenceEncoder, said: str, asked: str, else_asked: str
) -> None:
    assert await alike(encoder, said, asked) > await alike(encoder, said, else_asked) + 0.1


@pytest.mark.parametrize(
    "text", ["", " \n", "\x00", "\ud83d", "a\u202eb", "🍕" * 900, "word" * 900]
)
async def test_every_text_has_a_vector_of_length_one(encoder: SentenceEncoder, text: str) -> None:
    (vector,) = await encoder.embed([text])
    assert len(vector) == 512
    assert sum(one * one for one in vector) == pytest.approx(1.0, abs=1e-4)


async def test_one_text_has_one_vector_alone_and_beside_others(encoder: SentenceEncoder) -> None:
    texts = ["Tea at four.", "私は東京に住んでいます", "x" * 3000, "Tea at four."]
    together = await encoder.embed(texts)
    alone = await asyncio.gather(*[encoder.embed_question(text) for text in texts])
    assert together[0] == pytest.approx(together[3], abs=1e-5)
    for one, other in zip(together, alone, strict=True):
        assert one == pytest.approx(other, abs=1e-4)


@pytest.mark.parametrize("kept", [3, 1_024])
async def test_vectors_are_those_of_the_package(
    encoder: SentenceEncoder, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while two threads keep and drop pieces of words."""
    monkeypatch.setattr(sentence_encoder, "PIECES_KEPT", kept)
    texts = ["-", "Tea at four.", "Ça va, Köln? 🍕", "私は東京に住んでいます", "tea " * 150]
    texts.append("Ça va, Köln? 🍕 Tea at four.")
    batches = [texts[:3], texts[2:], texts, texts[::-1]]
    expected = import_module(sentence_encoder.PACKAGE).USE(threads=1).encode(texts)
    for batch, made in zip(
        batches, await asyncio.gather(*map(encoder.embed, batches)), strict=True
    ):
        for text, vector in zip(batch, made, strict=True):
            assert vector == pytest.approx(expected[texts.index(text)].tolist(), abs=1e-6)


@pytest.mark.parametrize("text", ["word " * 10_000, "x" * 100_000, "漢" * 100_000])
async def test_of_a_long_text_only_the_start_is_encoded(
    encoder: SentenceEncoder, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def encode(texts: list[str]) -> Any:
        seen.extend(texts)
        return sentence_encoder.numpy().zeros((len(texts), 512))

    monkeypatch.setattr(encoder, "_encode", encode)
    await encoder.embed([text])
    assert len(seen[0]) <= sentence_encoder.CHARS_MAX
    assert text.startswith(seen[0])


async def test_arithmetic_runs_in_the_thread_that_asks_for_it() -> None:
    """In a process of its own, as numpy reads once how many threads it may have."""
    code = (
        "import asyncio, threadpoolctl; from memsvc.adapters import sentence_encoder as s;"
        "asyncio.run(s.SentenceEncoder(s.EmbeddingOptions()).load());"
        "print({one['num_threads'] for one in threadpoolctl.threadpool_info()})"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out.decode().strip() == "{1}"


async def test_a_question_does_not_wait_for_the_load() -> None:
    encoder = SentenceEncoder(EmbeddingOptions())
    assert not encoder.is_ready
    with pytest.raises(MemsvcError) as raised:
        await encoder.embed_question("Where is the key?")
    assert raised.value.code is Code.UNAVAILABLE
    await encoder.load()
    assert len(await encoder.embed_question("Where is the key?")) == 512


async def test_other_files_than_those_that_were_measured_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sentence_encoder, "RESOURCES", {"sp.model": "0" * 64})
    encoder = SentenceEncoder(EmbeddingOptions())
    with pytest.raises(MemsvcError, match=r"sp\.model") as raised:
        await encoder.load()
    assert raised.value.code is Code.INTERNAL_ERROR
    assert not encoder.is_ready


def test_packed_prefixes_have_the_numbers_of_the_vocabulary_and_no_others() -> None:
    resources = files(sentence_encoder.PACKAGE).joinpath("resources")
    tokenizer = import_module(f"{sentence_encoder.PACKAGE}.tokenizer").UseTokenizer(
        str(resources.joinpath("sp.model"))
    )
    prefixes = tokenizer._prefixes
    packed = sentence_encoder._Prefixes(prefixes)
    assert all(packed.get(prefix) == number for prefix, number in prefixes.items())
    assert packed.get("ir") != packed.get("物")  # the same bytes in memory
    assert packed.get("▁no such piece") is None


async def test_processes_share_a_table_in_the_data_folder(
    encoder: SentenceEncoder, tmp_path: Path
) -> None:
    file = tmp_path / sentence_encoder.TABLE_FILE
    for content in (None, b"damaged"):
        if content is not None:
            file.write_bytes(content)
        shared = SentenceEncoder(EmbeddingOptions(), tmp_path)
        await shared.load()
        text = ["The key is under the blue pot."]
        assert (await shared.embed(text))[0] == pytest.approx((await encoder.embed(text))[0])
        assert os.listdir(tmp_path) == [file.name]  # noqa: PTH208 - nothing of the making is left
        assert file.stat().st_size > 65_000_000


@pytest.fixture
def door(encoding_door: Door) -> Door:
    return encoding_door


CHATS = (
    "The key to the greenhouse is under the blue pot.",
    "My sister Ella moved to Oslo and teaches maths there.",
    "The boiler was repaired for 300 euros.",
    "We planted tulips beside the fence on Sunday.",
    "Our team ships the importer in March.",
    "I watched a film about penguins.",
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Wo ist der Schlüssel vom Gewächshaus?", "blue pot"),
        ("¿Cuánto costó arreglar la caldera?", "300 euros"),
        ("Where does my sibling work as a teacher?", "Oslo"),
    ],
)
async def test_what_was_said_is_found_by_the_next_call_in_other_words_and_languages(
    door: Door, admin: Any, question: str, answer: str
) -> None:
    for number, text in enumerate(CHATS):
        await say(door, f"t{number}", text, "OK.", session=f"s{number}", user_id="ada")
    assert await admin.fetchval("SELECT count(*) FROM job_refs WHERE name = 'index.embed'") == 0
    assert answer in str(memory(await ask(door, question, session="new", user_id="ada")))


async def test_general_knowledge_is_told_nothing(door: Door) -> None:
    for number, text in enumerate(CHATS):
        await say(door, f"t{number}", text, "OK.", session=f"s{number}", user_id="ada")
    told = memory(
        await ask(door, "What is the boiling point of nitrogen?", session="new", user_id="ada")
    )
    assert not (told or {}).get("turns")


async def test_what_nothing_is_alike_to_is_not_found_in_knowledge(door: Door) -> None:
    for text in ("Lunch is at noon.", "Use tabs in Go code.", "Anna likes tea."):
        await door("elfmem_remember", content=text)
    await door("elfmem_dream", no_llm=True)
    found = await door("elfmem_recall", query="zebra xylophone")
    assert "noon" not in str(found)
    assert "tabs" not in str(found)
    assert "noon" in str(await door("elfmem_recall", query="Wann gibt es Mittagessen?"))


@pytest.mark.parametrize(
    ("said", "request_", "unrelated"),
    [
        (
            "The spare key hangs behind the rain barrel.",
            "where our spare door key is hidden",
            "my shoe size",
        ),
        (
            "Der Ersatzschlüssel hängt hinter der Regentonne.",
            "wo wir den Zweitschlüssel verstecken",
            "meine Schuhgröße",
        ),
        ("予備の鍵は雨水タンクの後ろに掛けてあります。", "家の鍵の隠し場所", "靴のサイズ"),
    ],
)
async def test_request_in_other_words_forgets_what_it_means_and_nothing_else(
    door: Door, said: str, request_: str, unrelated: str
) -> None:
    await say(door, "t1", said, "OK.", session="s1", user_id="ada")
    await say(door, "t2", "We paint the kitchen yellow today.", "OK.", session="s2", user_id="ada")
    who = {"session_id": "s3", "user_id": "ada", "reach": "user", "dry_run": False}
    nothing = await door("memory_forget", query=unrelated, **who)
    assert nothing["sentences"] == []
    done = await door("memory_forget", query=request_, **who)
    assert [one["text"] for one in done["sentences"]] == [said]
