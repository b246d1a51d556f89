"""One block with all that is thought of it, as people look at it."""

from math import exp

import pytest

from memsvc.core.scope import Scope
from tests.door import Door
from tests.fakes import FakeClock
from tests.styles.knowledge.blocks import block, learn, remember

pytestmark = pytest.mark.anyio


async def test_a_block_is_shown_with_its_evidence(call: Door, clock: FakeClock) -> None:
    one = await learn(call, "alpha beaver builds dams", "rivers", cue="near water")
    clock.advance(minutes=1)
    await call("elfmem_outcome", block_ids=[one], signal=0.9, source="test_pass")
    shown = await call("elfmem_show", block_id=one)
    assert (shown["content"], shown["cue"], shown["status"]) == (
        "alpha beaver builds dams",
        "near water",
        "active",
    )
    assert (shown["tags"], shown["tier"], shown["supersedes"]) == (["rivers"], "standard", [])
    assert shown["confidence"] == pytest.approx(shown["alpha"] / (shown["alpha"] + shown["beta"]))
    assert shown["evidence"] == 1
    [told] = shown["outcomes"]
    assert (told["signal"], told["source"], told["after"]) == (
        0.9,
        "test_pass",
        pytest.approx(shown["confidence"]),
    )
    assert told["before"] < told["after"]


async def test_it_fades_by_active_hours_and_looking_at_it_does_not_refresh_it(
    call: Door, clock: FakeClock
) -> None:
    one = await learn(call, "alpha beaver builds dams")
    before = await call("elfmem_show", block_id=one)
    assert before["left"] == pytest.approx(1)
    clock.advance(minutes=15)
    after = await call("elfmem_show", block_id=one)
    assert after["now_h"] - before["now_h"] == pytest.approx(0.25)
    assert after["reinforced_h"] == before["reinforced_h"]
    assert after["left"] == pytest.approx(exp(-after["decay_per_h"] * 0.25))
    assert exp(-after["decay_per_h"] * (after["faded_h"] - after["reinforced_h"])) == pytest.approx(
        0.05
    )
    assert after["reinforcement_count"] == before["reinforcement_count"]


async def test_its_edges_are_shown_from_both_ends_the_strongest_first(call: Door) -> None:
    one, other, third = [
        await remember(call, text) for text in ("alpha beaver", "gamma dolphin", "epsilon fox")
    ]
    await call(
        "elfmem_connect", source=one, target=other, relation="supports", note="seen together"
    )
    await call("elfmem_connect", source=third, target=one, relation="contradicts")
    edges = (await call("elfmem_show", block_id=one))["edges"]
    assert [(edge["block"]["content"], edge["relation"], edge["origin"]) for edge in edges] == [
        ("gamma dolphin", "supports", "agent"),
        ("epsilon fox", "contradicts", "agent"),
    ]
    assert edges[0]["note"] == "seen together"
    [back] = (await call("elfmem_show", block_id=third))["edges"]
    assert back["block"] == {"id": one, "content": "alpha beaver", "status": "inbox"}


async def test_what_stands_for_a_block_and_what_it_stands_for_are_shown(call: Door) -> None:
    old = await learn(
        call, "The ferry to the island leaves at nine in the morning from the old harbour."
    )
    new = await learn(
        call, "The ferry to the island leaves at nine in the morning from the old harbour!"
    )
    shown = await call("elfmem_show", block_id=new)
    replaced = await call("elfmem_show", block_id=old)
    pairs = [shown["superseded_by"], replaced["superseded_by"]]
    assert sorted(one["id"] for one in pairs if one) in ([old], [new]), (
        "one of them stands for the other"
    )
    archived, standing = (shown, replaced) if shown["superseded_by"] else (replaced, shown)
    assert (archived["status"], archived["archive_reason"]) == ("archived", "superseded")
    assert [one["id"] for one in standing["supersedes"]] == [archived["id"]]


async def test_what_contradicts_it_is_shown(call: Door) -> None:
    one = await learn(call, "The harbour master says that the ferry leaves at nine in the morning.")
    other = await learn(
        call, "The harbour master says that the ferry never leaves at nine in the morning."
    )
    [conflict] = (await call("elfmem_show", block_id=one))["conflicts"]
    assert (conflict["block"]["id"], conflict["kind"]) == (other, "contradiction")


async def test_a_forgotten_block_is_shown_without_its_text(call: Door) -> None:
    one = await learn(call, "alpha beaver builds dams")
    await call("elfmem_forget", block_id=one)
    shown = await call("elfmem_show", block_id=one)
    assert (shown["status"], shown["archive_reason"], shown["content"]) == (
        "archived",
        "forgotten",
        "",
    )


async def test_a_block_of_another_tenant_or_project_is_not_there(
    call: Door, other_scope: Scope
) -> None:
    one = await learn(call, "alpha beaver builds dams")
    assert await block(call, "alpha beaver builds dams")
    await call.refuses("NOT_FOUND", "elfmem_show", block_id=one, project="elsewhere")
    await call.as_tenant(other_scope).refuses("NOT_FOUND", "elfmem_show", block_id=one)
