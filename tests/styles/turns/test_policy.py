"""A session's owner may say how long its memory is kept, and whether anything is kept at all."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import orjson
import pytest

from memsvc.core.facts import Statement
from memsvc.core.rules.extraction import extract
from memsvc.core.scope import Scope
from memsvc.styles.turns.options import TurnOptions
from memsvc.styles.turns.policy import default_policy
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import (
    ask,
    file_paths,
    file_text,
    memory,
    row_counts,
    say,
    texts,
    unblocked,
    values,
)

NOW = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
RUN = "memory_run_maintenance"
POLICY = "/memory/s1/meta/policy.json"


async def write(door: Door, policy: Any, **more: Any) -> dict[str, Any]:
    content = orjson.dumps(policy).decode()
    return await door(
        "file_write",
        **{"project": "default", "path": POLICY, "content": content, "mode": "TRUNCATE"} | more,
    )


async def test_a_session_shows_the_policy_in_force(door: Door) -> None:
    await say(door, "t1", "Hello.")
    policy = orjson.loads(await file_text(door, POLICY))
    assert policy["tiers"]["L1"] == {"retention_days": 1, "sweep": True}
    assert policy["compaction"] == {
        "enabled": True,
        "max_hot_shard_bytes": 8388608,
        "min_shard_age_hours": 24,
        "compression": "zstd",
    }
    assert (policy["max_input_tok"], policy["store"], policy["ttl_days"]) == (120000, True, None)


async def test_what_is_shown_can_be_changed_and_written_back(door: Door, opened: Opened) -> None:
    await say(door, "t1", "Hello.")
    policy = orjson.loads(await file_text(door, POLICY))
    policy["tiers"]["L2"]["retention_days"] = 30
    written = await write(door, policy)
    assert (written["bytes_written"], written["version"]) == (len(orjson.dumps(policy)), "")
    assert orjson.loads(await file_text(door, POLICY)) == policy
    other = orjson.loads(await file_text(opened(l1_retention_days=3), POLICY))
    assert (other["tiers"]["L1"]["retention_days"], other["tiers"]["L2"]["retention_days"]) == (
        3,
        30,
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("not json", "must be a JSON object"),
        ("[]", "must be a JSON object"),
        ('{"tiers": {"L1": {"retention_days": -1}}}', "tiers.L1.retention_days"),
        ('{"tiers": {"L9": {}}}', "tiers.L9"),
        ('{"compaction": 3}', "compaction"),
        ('{"compaction": {"compression": "gzip"}}', "compaction.compression"),
        ('{"ttl_days": 0}', "ttl_days"),
        ('{"unheard_of": 1}', "unheard_of"),
        ('{"store": "perhaps"}', "store"),
        ('{"version": ' + " " * 17_000 + "1}", "is limited to 16384 bytes"),
    ],
)
async def test_what_cannot_be_a_policy_is_refused_by_name_and_changes_nothing(
    door: Door, admin: asyncpg.Connection, content: str, says: str
) -> None:
    refused = await door.refuses(
        "INVALID_CONTENT",
        "file_write",
        project="default",
        path=POLICY,
        content=content,
        mode="TRUNCATE",
    )
    assert says in refused["message"]
    assert (await row_counts(admin))["sessions"] == 0


async def test_a_refusal_repeats_nothing_of_what_was_written(door: Door) -> None:
    refused = await door.refuses(
        "INVALID_CONTENT",
        "file_write",
        project="default",
        path=POLICY,
        content='{"ttl_days": "hunter2"}',
        mode="TRUNCATE",
    )
    assert "hunter2" not in str(refused)


async def test_only_the_policy_can_be_written_and_only_as_a_whole(door: Door) -> None:
    await say(door, "t1", "Hello.")
    await door.refuses(
        "INVALID_ARGUMENT", "file_write", project="default", path=POLICY, content="{}"
    )
    for place in ("meta/state.json", "meta/policy.json/x", "policy.json", "meta/policy.json2"):
        path = f"/memory/s1/{place}"
        await door.refuses(
            "PERMISSION_DENIED",
            "file_write",
            project="default",
            path=path,
            content="{}",
            mode="TRUNCATE",
        )
    await door.refuses("PERMISSION_DENIED", "file_delete", project="default", path=POLICY)


async def test_preconditions_hold_for_a_policy_too(door: Door) -> None:
    await write(door, {"ttl_days": 3}, create_only=True)
    asked = {"project": "default", "path": POLICY, "content": "{}", "mode": "TRUNCATE"}
    await door.refuses("ALREADY_EXISTS", "file_write", **asked, create_only=True)
    await door.refuses("VERSION_CONFLICT", "file_write", **asked, content_sha256="0" * 64)
    await door.refuses("VERSION_CONFLICT", "file_write", **asked, expected_version="a" * 32 + ":1")


async def test_facts_are_kept_as_long_as_the_policy_says(door: Door, clock: FakeClock) -> None:
    await write(
        door, {"tiers": {"L0": {"retention_days": 2, "sweep": True}, "L1": {"retention_days": 10}}}
    )
    await say(door, "t1", "My name is Ada. Today I need milk.")
    clock.advance(days=3)
    assert (await door(RUN, session_id="s1"))["expired_facts"] == 1
    assert values(await ask(door, "What is my name, and what do I need today?")) == ["milk"]


async def test_a_tier_that_is_not_swept_keeps_its_lines_and_is_not_recalled(
    door: Door, clock: FakeClock
) -> None:
    await write(door, {"tiers": {"L1": {"sweep": False}}})
    await say(door, "t1", "Today I need milk.")
    await say(door, "t1", "Today I need bread.", session="s2")
    clock.advance(days=3)
    for session, expired in (("s1", 0), ("s2", 1)):
        assert (await door(RUN, session_id=session))["expired_facts"] == expired
        assert values(await ask(door, "What do I need today?", session=session)) == []
    tier = "/memory/s1/memory_tiers/L1/2026/01/facts-20260105.jsonl"
    assert "milk" in await file_text(door, tier)


async def test_a_session_that_stores_nothing_answers_and_keeps_nothing(
    door: Door, admin: asyncpg.Connection
) -> None:
    await write(door, {"store": False})
    before = await row_counts(admin)
    for _ in range(2):
        stored = await say(door, "t1", "My name is Ada.", answer="Hello Ada.", user_id="u1")
        assert (stored["ok"], stored["stored_items"], stored["fact_ids"]) == (True, 0, [])
    assert await row_counts(admin) == before
    prepared = await ask(door, "What is my name?", user_id="u1")
    assert texts(unblocked(prepared)) == ["What is my name?"]
    await write(door, {"store": True})
    assert (await say(door, "t1", "My name is Ada."))["stored_items"] == 1


async def test_what_is_older_than_its_time_to_live_is_gone_from_files_recall_and_context(
    opened: Opened, clock: FakeClock
) -> None:
    door = opened(recent_context_items=2)
    await write(door, {"ttl_days": 7})
    for turn in range(4):
        await say(
            door, f"t{turn}", f"My name is Ada{turn} and the safe word is heron.", answer="Noted."
        )
    clock.advance(days=3)
    assert (await door(RUN, session_id="s1"))["expired_items"] == 0
    await say(door, "t9", "The meeting is about boats.", answer="Fine.")
    await door(RUN, session_id="s1")
    clock.advance(days=6)
    done = await door(RUN, session_id="s1")
    assert done["expired_items"] == 8
    assert done["expired_facts"] >= 1
    for question in ("What is the safe word?", "What is my name?"):
        assert "heron" not in str(await ask(door, question))
        assert "Ada" not in str(await ask(door, question))
    assert texts(unblocked(await ask(door, "Hm?"))) == [
        "The meeting is about boats.",
        "Fine.",
        "Hm?",
    ]
    kept = [path for path in await file_paths(door, "/memory/s1") if "/2026/01/05/" in path]
    assert [path for path in kept if not path.endswith((".abstract", ".overview"))] == []
    assert (await door(RUN, session_id="s1"))["expired_items"] == 0


async def test_what_a_users_other_sessions_rely_on_outlives_the_session_that_it_was_learnt_in(
    door: Door, clock: FakeClock
) -> None:
    await write(door, {"ttl_days": 2})
    await say(door, "t1", "My name is Ada. The safe word is heron.", user_id="u1")
    for day in range(2, 6):
        clock.advance(days=1)
        await say(door, f"t{day}", "My name is Ada.", session="s2", user_id="u1")
    done = await door(RUN, session_id="s1")
    assert (done["expired_facts"], done["expired_items"]) == (0, 1)
    for session in ("s1", "s2"):
        prepared = await ask(
            door, "What is my name, and what is the safe word?", session=session, user_id="u1"
        )
        assert values(prepared) == ["Ada"]
        assert "heron" not in str(prepared)
    await door("memory_forget", session_id="s1", user_id="u1", fact_ids=["user_name"])
    assert values(await ask(door, "What is my name?", session="s2", user_id="u1")) == []


async def test_compaction_follows_the_policy(opened: Opened) -> None:
    door = opened(recent_context_items=2)
    for session, policy in (
        ("s1", {"compaction": {"enabled": False}}),
        ("s2", {"max_input_tok": 100}),
    ):
        path = f"/memory/{session}/meta/policy.json"
        await write(door, policy, path=path)
        await say(door, "t1", "Mira moved to Lisbon. " * 20, answer="Noted. " * 20, session=session)
    assert (await door(RUN, session_id="s1"))["compacted_items"] == 0
    assert (await door(RUN, session_id="s2"))["compacted_items"] == 1


async def test_a_policy_is_one_tenants_own(door: Door, other_scope: Scope) -> None:
    await write(door, {"ttl_days": 3})
    other = door.as_tenant(other_scope)
    await other.refuses("NOT_FOUND", "file_read", project="default", path=POLICY)
    assert memory(await ask(other, "Hello?"))["facts"] == []


def stated(rule_text: str, at: datetime = NOW) -> dict[str, datetime | None]:
    """Read a message and return when each fact in it would expire, by fact id."""
    claims = extract(
        [("i", rule_text)],
        session="s",
        turn="t",
        user="u",
    )
    policy = default_policy(TurnOptions(l1_retention_days=1, l2_retention_days=7))
    return {
        claim.fact_id: policy.expires_at(claim, at)
        for claim in claims
        if isinstance(claim, Statement)
    }


@pytest.mark.parametrize(
    ("text", "fact_id", "expected"),
    [
        ("My name is Ada.", "user_name", None),
        ("I like jazz.", "user_like", None),
        ("I hate coriander.", "user_dislike", None),
        ("Today I need milk.", "today_task", datetime(2026, 1, 6, tzinfo=UTC)),
        ("This week I need a plan.", "weekly_task", datetime(2026, 1, 12, tzinfo=UTC)),
        # NOW is a Monday
        ("I'm meeting Eve tomorrow.", "user_plan", datetime(2026, 1, 7, tzinfo=UTC)),
        ("On Friday I fly to Rome.", "user_plan", datetime(2026, 1, 10, tzinfo=UTC)),
        (
            "Remind me to renew the passport in two weeks.",
            "user_reminder",
            datetime(2026, 1, 20, tzinfo=UTC),
        ),
        ("Remind me to call Bo.", "user_reminder", None),
        ("Am Freitag fliege ich nach Rom.", "user_plan", datetime(2026, 1, 10, tzinfo=UTC)),
        ("我明天要飞罗马。", "user_plan", datetime(2026, 1, 7, tzinfo=UTC)),
    ],
)
def test_facts_last_but_for_plans_and_tasks_whose_day_is_over(
    text: str, fact_id: str, expected: datetime | None
) -> None:
    assert stated(text)[fact_id] == expected


REMINDERS = (
    "Remind me to renew the passport in two weeks.",
    "Erinnere mich in zwei Wochen daran, den Pass zu verlängern.",
    "Rappelle-moi de renouveler mon passeport dans deux semaines.",
    "Recuérdame renovar el pasaporte en dos semanas.",
    "两周后提醒我续护照。",
    "二週間後にパスポートを更新することを思い出させて。",
)
FLIGHTS = (
    "Next Friday I fly to Oslo.",
    "Nächsten Freitag fliege ich nach Oslo.",
    "Vendredi prochain je prends l'avion pour Oslo.",
    "El próximo viernes vuelo a Oslo.",
    "下周五我飞奥斯陆。",
    "来週の金曜日にオスロに飛びます。",
)
APPOINTMENTS = (
    "My dentist appointment is tomorrow at 3 pm.",
    "Mein Zahnarzttermin ist morgen um 15 Uhr.",
    "Mon rendez-vous chez le dentiste est demain à 15 h.",
    "Mi cita con el dentista es mañana a las 3.",
    "我的牙医预约是明天下午三点。",
    "我明天下午三点看牙医。",
    "歯医者の予約は明日の午後3時です。",
    "明日の午後3時に歯医者の予約があります。",
)


@pytest.mark.parametrize(
    ("texts", "fact_id", "days"),
    [(REMINDERS, "user_reminder", 15), (FLIGHTS, "user_plan", 15), (APPOINTMENTS, "user_plan", 2)],
)
def test_reminder_or_plan_ends_when_its_day_is_over(
    texts: Sequence[str], fact_id: str, days: int
) -> None:
    today = NOW.replace(hour=0, minute=0, second=0)
    assert [stated(text).get(fact_id) for text in texts] == [today + timedelta(days)] * len(texts)


@pytest.mark.parametrize(
    "text",
    ["My yoga class is on Friday.", "His appointment is tomorrow.", "Is my appointment tomorrow?"],
)
def test_habit_question_and_plan_of_another_are_no_plan(text: str) -> None:
    assert "user_plan" not in stated(text)
