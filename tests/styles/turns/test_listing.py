"""Looking into memory: directories with an abstract of each, and nothing written by looking."""

import pytest

from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.turns.talk import file_paths, say

LIST = "memory_list_dir_with_abstract"


async def listed(door: Door, **given: object) -> list[str]:
    return [one["path"] for one in (await door(LIST, **given))["summaries"]]


async def test_each_directory_has_its_path_abstract_time_and_whether_there_is_an_overview(
    door: Door,
) -> None:
    await say(door, "t1", "My name is Ada.")
    answer = await door(LIST, session_id="s1")
    assert all(
        set(one) == {"path", "abstract", "updated_at", "has_overview"}
        for one in answer["summaries"]
    )
    root = answer["summaries"][0]
    assert (root["path"], root["updated_at"], root["has_overview"]) == (
        "/memory/s1",
        "2026-01-05T12:00:00Z",
        False,
    )
    assert all(100 <= len(one["abstract"].split()) <= 200 for one in answer["summaries"])
    paths = [one["path"] for one in answer["summaries"]]
    assert paths == sorted(paths)
    assert {"/memory/s1/events/raw/2026/01/05", "/memory/s1/memory_tiers/L0"} <= set(paths)


async def test_the_directories_of_rendered_files_are_listed_too(door: Door) -> None:
    await say(door, "t1", "My name is Ada.")
    rendered = {
        "/memory/s1/meta",
        "/memory/s1/indexes",
        "/memory/s1/runtime",
        "/memory/s1/runtime/context",
    }
    assert rendered <= set(await listed(door, session_id="s1"))
    assert await listed(door, session_id="s1", path="/memory/s1/meta") == ["/memory/s1/meta"]
    await door("memory_run_maintenance", session_id="s1")
    after = {one["path"]: one for one in (await door(LIST, session_id="s1"))["summaries"]}
    assert all(after[path]["has_overview"] for path in rendered)


async def test_maintenance_writes_the_overviews(door: Door) -> None:
    await say(door, "t1", "My name is Ada.")
    before = {
        one["path"]: one["abstract"] for one in (await door(LIST, session_id="s1"))["summaries"]
    }
    await door("memory_run_maintenance", session_id="s1")
    after = (await door(LIST, session_id="s1"))["summaries"]
    assert all(one["has_overview"] for one in after)
    assert {one["path"]: one["abstract"] for one in after} == before


async def test_depth_and_limit_have_their_defaults_and_bounds(door: Door, clock: FakeClock) -> None:
    await say(door, "t1", "My name is Ada.")
    whole = await listed(door, session_id="s1")
    assert await listed(door, session_id="s1", depth=0, limit=0) == whole
    assert await listed(door, session_id="s1", depth=-1, limit=-1) == whole
    assert await listed(door, session_id="s1", depth=None, limit=None, path=None) == whole
    assert await listed(door, session_id="s1", limit=2) == whole[:2]
    assert await listed(door, session_id="s1", depth=1) == [
        path for path in whole if path.count("/") <= 3
    ]
    assert await listed(door, session_id="s1", path="/memory/s1/events", depth=1) == [
        "/memory/s1/events",
        "/memory/s1/events/raw",
    ]


async def test_a_session_that_does_not_exist_has_no_directories_and_gets_none(door: Door) -> None:
    assert await listed(door, session_id="never") == []
    assert await listed(door, session_id="never", path="/memory/never/meta") == []
    assert (await door("file_list", project="default"))["entries"] == []


async def test_a_session_does_not_list_its_neighbours(door: Door) -> None:
    await say(door, "t1", "one", session="s1")
    await say(door, "t1", "ten", session="s10")
    await say(door, "t1", "under", session="s_1")
    assert {path.split("/")[2] for path in await listed(door, session_id="s1")} == {"s1"}


@pytest.mark.parametrize(
    "path", ["relative", "/a/../b", "/a//b", "/a/", "/a\x00b", "/" + "a" * 600]
)
async def test_a_path_that_is_none_is_refused(door: Door, path: str) -> None:
    await door.refuses("INVALID_PATH", LIST, session_id="s1", path=path)


async def test_more_days_than_a_listing_has_room_for_are_all_kept(
    door: Door, clock: FakeClock
) -> None:
    # no store of facts or events may end where a listing does
    for day in range(40):
        await say(door, f"t{day}", f"Today I need thing {day}.")
        clock.advance(days=1)
    assert (
        len([path for path in await file_paths(door, "/memory/s1") if "/events/raw/" in path]) == 40
    )
    assert (await door("memory_run_maintenance", session_id="s1"))["expired_facts"] == 40
    assert not [
        path
        for path in await file_paths(door, "/memory/s1")
        if "/L1/" in path and path.endswith("jsonl")
    ]


async def _told(door: Door) -> dict[str, str]:
    answer = await door(LIST, session_id="s1")
    return {one["path"].removeprefix("/memory/s1"): one["abstract"] for one in answer["summaries"]}


@pytest.mark.parametrize("is_maintained", [False, True])
async def test_abstracts_tell_what_was_said_and_learned(door: Door, *, is_maintained: bool) -> None:
    await say(door, "t1", "My name is Ada. The orchids of Halina bloom in Graz.", answer="Nice!")
    await say(door, "t2", "Halina ships the Vega release on Thursday.", answer="Noted.")
    if is_maintained:
        await door("memory_run_maintenance", session_id="s1")
    told = await _told(door)
    for place in ("", "/events", "/events/raw"):
        assert "The orchids of Halina bloom in Graz." in told[place]
        assert "Halina ships the Vega release on Thursday." in told[place]
    for place in ("", "/memory_tiers", "/memory_tiers/L0"):
        assert "My name is Ada" in told[place]
    assert "Ada" not in told["/meta"]
    assert all(100 <= len(text.split()) <= 200 for text in told.values())


async def test_abstract_tells_nothing_that_was_forgotten(door: Door) -> None:
    await say(door, "t1", "My name is Ada.", answer="Hello.")
    await say(door, "t2", "The orchids of Halina bloom in Graz.", answer="Nice!")
    await door("memory_run_maintenance", session_id="s1")
    await door("memory_forget", session_id="s1", turn_ids=["t1"], dry_run=False)
    told = await _told(door)
    assert "Halina" in told[""]
    assert not [place for place, text in told.items() if "Ada" in text]


async def test_long_session_has_abstracts_of_the_usual_length(door: Door) -> None:
    for number in range(12):
        await say(door, f"t{number}", f"I like tea{number}. {'On and on it went. ' * 40}")
        await say(door, f"c{number}", f"我喜欢吃苹果，也喜欢喝茶。第{number}次。" * 9)
    assert all(100 <= len(text.split()) <= 200 for text in (await _told(door)).values())
