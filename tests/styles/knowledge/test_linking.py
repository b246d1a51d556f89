"""Edges that agents state and take back, and what is documented for them."""

import re
from dataclasses import astuple

import asyncpg
import pytest

from memsvc.styles.knowledge.curate import health
from memsvc.styles.knowledge.guide import ENTRIES
from tests.door import Door
from tests.styles.knowledge.blocks import learn, remember

pytestmark = pytest.mark.anyio
WEIGHTS = {
    "similar": 0.65,
    "co_occurs": 0.55,
    "elaborates": 0.70,
    "supports": 0.75,
    "contradicts": 0.60,
    "outcome": 0.80,
    "predicts": 0.70,
    "validates": 0.75,
    "reminds me of": 0.65,
}


@pytest.mark.parametrize(("relation", "weight"), WEIGHTS.items())
async def test_an_edge_has_the_weight_of_its_relation(
    call: Door, relation: str, weight: float
) -> None:
    one, other = await remember(call, "alpha beaver"), await remember(call, "gamma dolphin")
    made = await call("elfmem_connect", source=one, target=other, relation=relation, note="why not")
    assert (made["action"], made["relation"], made["weight"], made["note"]) == (
        "created",
        relation,
        weight,
        "why not",
    )
    assert (
        made["summary"]
        == f"Created {relation} edge: {one[:8]}…→{other[:8]}… (weight={weight:.2f})."
    )


async def test_an_edge_that_is_there_is_reinforced_updated_left_or_an_error(call: Door) -> None:
    one, other = await remember(call, "alpha beaver"), await remember(call, "gamma dolphin")
    await call("elfmem_connect", source=one, target=other)
    again = await call("elfmem_connect", source=other, target=one)
    assert (again["action"], again["relation"], again["weight"]) == (
        "reinforced",
        "similar",
        pytest.approx(0.75),
    )
    left = await call(
        "elfmem_connect", source=one, target=other, relation="supports", if_exists="skip"
    )
    assert (left["action"], left["relation"]) == ("skipped", "similar")
    low, high = sorted((one, other))
    refused = await call.refuses(
        "CONFLICT", "elfmem_connect", source=one, target=other, relation="supports"
    )
    assert refused["message"] == (
        f"Edge already exists between {low[:8]}… and {high[:8]}… with relation='similar', but"
        " reinforce was called with relation='supports'."
    )
    assert refused["recovery"].startswith(
        "Use if_exists='update' to change the relation to 'supports'"
    )
    refused = await call.refuses(
        "ALREADY_EXISTS", "elfmem_connect", source=one, target=other, if_exists="error"
    )
    assert refused["recovery"] == "Use if_exists='reinforce' or 'update' to modify existing edges."
    new = await call(
        "elfmem_connect",
        source=one,
        target=other,
        relation="supports",
        note="seen",
        if_exists="update",
    )
    assert (new["action"], new["relation"], new["weight"], new["note"]) == (
        "updated",
        "supports",
        pytest.approx(0.75),
        "seen",
    )
    await call("elfmem_connect", source=one, target=other)
    kept = await call("elfmem_connect", source=one, target=other, note="twice", if_exists="update")
    assert (kept["relation"], kept["weight"]) == ("supports", pytest.approx(0.85))
    newer = await call(
        "elfmem_connect", source=one, target=other, relation="contradicts", if_exists="update"
    )
    assert (newer["relation"], newer["weight"], newer["note"]) == ("contradicts", 0.60, "twice")
    gone = await call("elfmem_disconnect", source=one, target=other)
    assert (gone["removed_relation"], gone["removed_weight"]) == (
        "contradicts",
        pytest.approx(0.60),
    )


async def test_a_block_is_not_connected_to_itself_nor_to_what_is_not_there(call: Door) -> None:
    one, gone = await remember(call, "alpha beaver"), await remember(call, "gamma dolphin")
    await call("elfmem_forget", block_id=gone)
    refused = await call.refuses("INVALID_ARGUMENT", "elfmem_connect", source=one, target=one)
    assert refused["message"] == f"Cannot connect block '{one[:8]}' to itself."
    assert refused["recovery"] == "source and target must be different block IDs."
    for nothing in (gone, "nope-nope-nope"):
        refused = await call.refuses("NOT_FOUND", "elfmem_connect", source=one, target=nothing)
        assert refused["message"] == f"Block '{nothing[:8]}…' not found in active memory."


async def test_where_a_block_has_five_edges_the_weakest_that_nobody_stated_makes_room(
    call: Door, admin: asyncpg.Connection
) -> None:
    hub = await remember(call, "hub of it all")
    others = [
        await remember(call, f"spoke {word}") for word in ("a1", "b2", "c3", "d4", "e5", "f6", "g7")
    ]
    for other in others[:5]:
        await call("elfmem_connect", source=hub, target=other, relation="supports")
    refused = await call.refuses("CONFLICT", "elfmem_connect", source=hub, target=others[5])
    assert refused["message"].endswith("has 5 protected edges; no auto-edges to displace.")
    assert refused["recovery"].startswith("Run elfmem_curate() ")
    weak, strong = sorted((hub, others[0])), sorted((hub, others[1]))
    change = (
        "UPDATE edges SET origin = 'similarity', relation = 'similar', weight = $3 WHERE low"
        " = $1 AND high = $2"
    )
    await admin.execute(change, *weak, 0.5)
    await admin.execute(change, *strong, 0.6)
    made = await call("elfmem_connect", source=hub, target=others[5])
    assert made["displaced_edge"] == {
        "from_id": weak[0],
        "to_id": weak[1],
        "relation_type": "similar",
        "weight": 0.5,
    }
    assert made["summary"].endswith("Displaced auto-similar edge (weight=0.50) to fit degree cap.")
    assert await admin.fetchval("SELECT count(*) FROM edges") == 5


async def test_an_edge_is_removed_unless_it_is_guarded_or_not_there(call: Door) -> None:
    one, other = await learn(call, "alpha beaver"), await learn(call, "gamma dolphin")
    none = await call("elfmem_disconnect", source=one, target=other)
    assert (none["action"], none["summary"]) == (
        "not_found",
        f"No edge found between {one[:8]}… and {other[:8]}…",
    )
    await call("elfmem_connect", source=one, target=other, relation="supports")
    kept = await call("elfmem_disconnect", source=one, target=other, guard_relation="similar")
    assert (kept["action"], kept["removed_relation"]) == ("guarded", None)
    gone = await call(
        "elfmem_disconnect", source=other, target=one, guard_relation="supports", reason="wrong"
    )
    assert (gone["action"], gone["removed_relation"], gone["removed_weight"]) == (
        "removed",
        "supports",
        0.75,
    )
    assert (await call("elfmem_disconnect", source=one, target=other))["action"] == "not_found"


async def test_the_guide_has_a_card_of_every_tool_and_knows_elfmems_names(call: Door) -> None:
    overview = (await call("elfmem_guide"))["text"]
    of_agents = [tool.name for tool in call.dispatch.catalogue if not tool.is_admin]
    tools = [name.removeprefix("elfmem_") for name in of_agents if name.startswith("elfmem_")]
    assert len(tools) == 13
    for name in tools:
        assert f"\n  {name}(" in overview
        card = (await call("elfmem_guide", method=name))["text"]
        assert card.startswith(f"elfmem.{name}()\n  What:       ")
        for part in (
            "Use when:",
            "Don't use:",
            "Cost:",
            "Returns:",
            "Next:",
            "Example:\n    elfmem_",
        ):
            assert f"  {part}" in card
    for alias in ("learn", "frame", "consolidate", "history", "elfmem_remember"):
        assert alias.removeprefix("elfmem_") in (await call("elfmem_guide", method=alias))["text"]


async def test_no_text_names_a_call_that_is_not_there(call: Door) -> None:
    tools = {tool.name for tool in call.dispatch.catalogue}
    one = await remember(call, "alpha beaver")
    texts = [health(inbox, 10, stored)[1] for inbox, stored in ((10, 10), (8, 8), (0, 0), (7, 20))]
    texts += [text for entry in ENTRIES.values() for text in astuple(entry)]
    refused = await call.refuses("NOT_FOUND", "elfmem_connect", source=one, target="nope")
    forgotten = await call.refuses("NOT_FOUND", "elfmem_forget", block_id="nope")
    texts += [refused["recovery"], forgotten["recovery"]]
    called = {name for text in texts for name in re.findall(r"([\w.]+)\(", text)}
    assert {"elfmem_dream", "elfmem_recall"} <= called
    assert {
        name for name in called if f"elfmem_{name.removeprefix('elfmem_')}" not in tools
    } == set()


async def test_the_guide_says_which_operations_there_are(call: Door) -> None:
    unknown = (await call("elfmem_guide", method="x"))["text"]
    assert unknown.startswith(
        "Unknown method 'x'. Valid methods: 'connect', 'consolidate', 'curate', "
    )
