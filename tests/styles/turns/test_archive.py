"""Raw events of days gone by are packed, byte for byte, and everything that is said is still
there."""

from base64 import b64decode
from typing import Any

import pytest
import zstandard
from zstandard import ZstdDecompressor

from memsvc.styles.turns.maintenance.raw_archive import INPUT_BYTES, decompress
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.conftest import Opened
from tests.styles.turns.talk import (
    ask,
    events,
    file_paths,
    file_text,
    memory,
    say,
    texts,
    unblocked,
)

RUN = "memory_run_maintenance"
RAW = "/memory/s1/events/raw/2026/01/05/log-20260105.jsonl"
ARCHIVE = "/memory/s1/events/archive/2026/01/05/log-20260105.jsonl.zst"
MOST = 10**7
EMPTY_FRAME = b"P*M\x18\0\0\0\0"


@pytest.fixture
def short(opened: Opened) -> Door:
    """A service that keeps two items in the running context."""
    return opened(recent_context_items=2)


async def read_archive(door: Door, path: str = ARCHIVE) -> bytes:
    """An archive as a caller reads it: base64."""
    answer = await door("file_read", project="default", path=path)
    assert answer["content_encoding"] == "base64"
    return decompress(b64decode(answer["content"]), bytes_max=MOST)


async def test_events_of_a_day_gone_by_are_packed_byte_for_byte(
    short: Door, clock: FakeClock
) -> None:
    for turn in range(5):
        await say(short, f"t{turn}", f"Note {turn} with ümlauts.", answer="Noted.")
    before = (await file_text(short, RAW)).encode()
    clock.advance(hours=30)
    await say(short, "t9", "Another day.", answer="Indeed.")
    done = await short(RUN, session_id="s1")
    assert (done["archived_files"], done["archived_bytes"]) == (1, len(before))
    assert await read_archive(short) == before
    paths = await file_paths(short, "/memory/s1/events")
    assert RAW not in paths
    assert ARCHIVE in paths
    assert len(await events(short, day="2026/01/06")) == 2
    assert (await short(RUN, session_id="s1"))["archived_files"] == 0


async def test_what_was_packed_is_still_recalled_and_a_turn_of_it_is_still_known(
    short: Door, clock: FakeClock
) -> None:
    await say(short, "t1", "The spare key lies under the blue flowerpot.", answer="Noted.")
    for turn in range(2, 12):
        await say(short, f"t{turn}", f"Remark {turn} about the weather.", answer="Noted.")
    clock.advance(hours=48)
    await say(short, "t99", "Another day.", answer="Indeed.")
    assert (await short(RUN, session_id="s1"))["archived_files"] == 1
    found = memory(await ask(short, "Where is the spare key?"))["turns"]
    assert found[0]["text"] == "The spare key lies under the blue flowerpot."
    again = await say(short, "t1", "The spare key lies under the blue flowerpot.", answer="Noted.")
    assert again["stored_items"] == 2
    assert len(await events(short, day="2026/01/07")) == 2


async def test_the_context_that_a_quiet_session_goes_on_with_is_never_packed_away(
    door: Door, clock: FakeClock
) -> None:
    await say(door, "t1", "Let us talk about boats.", answer="Gladly.")
    clock.advance(days=90)
    assert (await door(RUN, session_id="s1"))["archived_files"] == 0
    prepared = await ask(door, "Where were we?")
    assert texts(unblocked(prepared)) == ["Let us talk about boats.", "Gladly.", "Where were we?"]


@pytest.mark.parametrize(("hours", "archived"), [(23, 0), (35, 0), (37, 1)])
async def test_events_are_packed_when_their_day_and_their_last_write_are_old_enough(
    opened: Opened, clock: FakeClock, hours: int, archived: int
) -> None:
    door = opened(recent_context_items=2, compaction_min_age_hours=36)
    await say(door, "t1", "One.", answer="Two.")
    clock.advance(hours=hours)
    await say(door, "t2", "Three.", answer="Four.")
    assert (await door(RUN, session_id="s1"))["archived_files"] == archived


async def test_a_large_file_is_packed_as_soon_as_its_day_is_over(
    short: Door, clock: FakeClock
) -> None:
    policy = '{"compaction": {"max_hot_shard_bytes": 100}}'
    await short(
        "file_write",
        project="default",
        path="/memory/s1/meta/policy.json",
        content=policy,
        mode="TRUNCATE",
    )
    await say(short, "t1", "One.", answer="Two.")
    assert (await short(RUN, session_id="s1"))["archived_files"] == 0
    clock.advance(hours=13)
    await say(short, "t2", "Three.", answer="Four.")
    assert (await short(RUN, session_id="s1"))["archived_files"] == 1


@pytest.mark.parametrize("content", [b"no archive", b"\x28\xb5\x2f\xfd\x00"])
def test_what_is_no_whole_archive_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError):
        decompress(content, bytes_max=MOST)


def test_an_archive_of_many_frames_is_read_piece_by_piece_in_their_order() -> None:
    said = [f"line {at}\n".encode() * (at % 7 * 400) for at in range(400)]
    packed = b"".join(EMPTY_FRAME + zstandard.compress(some) for some in said) + EMPTY_FRAME
    assert decompress(packed, bytes_max=MOST) == b"".join(said)
    with pytest.raises(ValueError, match="is not complete"):
        decompress(packed + EMPTY_FRAME[:-1], bytes_max=MOST)
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        decompress(packed, bytes_max=1000)


@pytest.mark.slow
def test_unpacking_takes_a_bounded_piece_for_each_frame_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[int] = []

    class Counted:
        def __init__(self) -> None:
            self._unpacking = ZstdDecompressor().decompressobj()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._unpacking, name)

        def decompress(self, piece: bytes) -> bytes:
            given.append(len(piece))
            return self._unpacking.decompress(piece)

    class Counting:
        decompressobj = Counted

    monkeypatch.setattr(zstandard, "ZstdDecompressor", Counting)
    assert decompress(EMPTY_FRAME * 145_000, bytes_max=MOST) == b""
    assert len(given) == 145_000
    assert max(given) <= INPUT_BYTES


def test_an_archive_of_more_frames_than_are_ever_packed_is_refused_at_the_first_too_many() -> None:
    assert decompress(EMPTY_FRAME * 5, bytes_max=MOST, frames_max=5) == b""
    with pytest.raises(ValueError, match="more than 5 frames"):
        decompress(EMPTY_FRAME * 6, bytes_max=MOST, frames_max=5)
