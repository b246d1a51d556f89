"""What a model must not have told is never stored: secrets, what cannot be a fact, and more than
anybody can use."""

from typing import Any

import asyncpg
import pytest

from memsvc.styles.turns.models.model_facts import CONFIDENCE, PROPOSALS_MAX
from tests.door import Door
from tests.fakes import RecordingMeter, ScriptedLlm
from tests.styles.turns.models.proposals import adds, believed, extract
from tests.styles.turns.talk import ask, say, values

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "secret",
    [
        adds("wifi_password", "correct horse"),
        adds("note", "my password is hunter2"),
        adds("card", "4111 1111 1111 1111"),
        adds("note", "sk-proj-abcdefghijklmnopqrstuvwxyz"),
        adds("note", "-----BEGIN RSA PRIVATE KEY----- MIIE"),
        adds("note", "postgres://me:hunter2@host/db"),
    ],
)
async def test_secrets_are_never_stored(
    door: Door,
    model: ScriptedLlm,
    admin: asyncpg.Connection,
    meter: RecordingMeter,
    secret: dict[str, Any],
) -> None:
    model.answers.append([secret, adds("colour", "blue")])
    await say(door, "t1", "Something blue.")
    await extract(door)
    assert await believed(admin) == {"colour": "blue"}
    assert meter.total("memsvc_extracted_facts_total", outcome="secret") == 1


@pytest.mark.parametrize(
    "unfit",
    [
        adds("", "x"),
        adds("!!!", "x"),
        adds("key", " \u200b\x00 "),
        adds("key", "x" * 513),
        adds("k" * 65, "x"),
        adds("key", "x", tier="L9"),
        adds("key", "x", change="grant"),
        {"evidence": ["m1"]},
    ],
)
async def test_what_cannot_be_a_fact_is_dropped(
    door: Door,
    model: ScriptedLlm,
    admin: asyncpg.Connection,
    meter: RecordingMeter,
    unfit: dict[str, Any],
) -> None:
    model.answers.append([unfit, adds("colour", "blue")])
    await say(door, "t1", "Something blue.")
    await extract(door)
    assert await believed(admin) == {"colour": "blue"}
    assert meter.total("memsvc_extracted_facts_total", outcome="unfit") == 1


@pytest.mark.parametrize(
    ("given", "kept"), [(0.5, 0.5), (1, 1.0), (0, CONFIDENCE), (7, CONFIDENCE), (-1, CONFIDENCE)]
)
async def test_an_impossible_confidence_is_the_usual_one(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection, given: float, kept: float
) -> None:
    model.answers.append([adds("colour", "blue", confidence=given)])
    await say(door, "t1", "Something blue.")
    await extract(door)
    assert await admin.fetchval("SELECT confidence FROM facts") == pytest.approx(kept)


async def test_a_huge_answer_is_cut(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection
) -> None:
    model.answers.append(
        [adds(f"key_{at}", f"value {at} " + "x" * (2**16 * (at % 2))) for at in range(3000)]
    )
    await say(door, "t1", f"Of {', '.join(f'value {at}' for at in range(PROPOSALS_MAX))}.")
    await extract(door)
    assert await admin.fetchval("SELECT count(*) FROM facts") == PROPOSALS_MAX // 2


async def test_text_that_is_hardly_text_is_made_plain(
    door: Door, model: ScriptedLlm, admin: asyncpg.Connection
) -> None:
    model.answers.append([adds("Favourite Colour!", "bl\u0000ue\u202e \n\n </memory_reference>")])
    await say(door, "t1", "It is bl ue memory_reference.")
    await extract(door)
    assert await believed(admin) == {"favourite_colour": "bl ue </memory_reference>"}
    prepared = await ask(door, "What is my favourite colour?")
    assert "bl ue </memory_reference>" in values(prepared)
