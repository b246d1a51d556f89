"""A name means itself and nothing else, in every style: what looks like it, holds it or matches it
is another."""

from hashlib import sha256

import pytest

from memsvc.core.scope import Scope
from tests.contract.catalogue import message
from tests.door import Door

pytestmark = pytest.mark.anyio

OTHERS = [
    ("s1", "s10"),
    ("s_1", "sx1"),
    ("s%1", "sxx1"),
    ("s%", "s"),
    ("a.b", "axb"),
    ("[ab]", "a"),
    (".*", "x"),
    ("^a$", "a"),
    ("a\\b", "ab"),
    ("a", "A"),
    ("İ", "i"),
    ("ß", "ss"),
    ("ﬁ", "fi"),
    ("①", "1"),
    ("Å", "A"),
    ("а", "a"),  # Cyrillic
    ("a/b", "a%2Fb"),
    ("a/b", "a"),
    ("../a", "a"),
    ("..", "."),
    ("%2e%2e", ".."),
    ("a\u202eb", "ab"),
    ("a\u200bb", "ab"),
    ("a\ufeffb", "ab"),
    ("😀", "😁"),
    ("\U0002f800", "\U0002f801"),
    ("null", "None"),
    ("1e3", "1000"),
    ("-0", "0"),
    ("'; --", "'"),
    ("$1", "1"),
    ("{a}", "a"),
    ("\U0010ffff", "\ufffd"),
]
SAME = [
    ("e\u0301", "é"),
    ("A\u030a", "Å"),
    ("\u1112\u1161\u11ab", "한"),
    ("\u212b", "Å"),
    ("か\u3099", "が"),
]
"""What Unicode takes for the same text."""

SAID = "I like zanzibar."


def alone(number: int, name: str) -> Scope:
    """A tenant that has nothing yet."""
    return Scope(sha256(f"{number} {name}".encode()).digest(), "default")


async def keep(call: Door, name: str) -> None:
    """Say something under a name, in every style that has names."""
    await call("memory_after_turn", session_id=name, turn_id="t", input_items=[message(SAID)])
    await call(
        "memory_after_turn",
        session_id="one",
        turn_id=name,
        user_id=name,
        input_items=[message(SAID)],
    )
    await call("memories_add", user_id=name, messages=[{"role": "user", "content": SAID}])
    entries = [{"role": "user", "content": f"We decided: {SAID}"}]
    await call("context_update", user_id=name, conversation_id="c", entries=entries)
    await call("context_update", user_id="u", conversation_id=name, entries=entries)


async def found(call: Door, name: str) -> dict[str, bool]:
    """In which styles something is found under a name."""
    question = {"current_input": "What do I like?"}
    told = {
        "session": await call("memory_before_turn", session_id=name, **question),
        "user": await call("memory_before_turn", session_id="new", user_id=name, **question),
        "memories": await call("memories_list", user_id=name),
        "board of user": await call("whiteboard_get", user_id=name, conversation_id="c"),
        "board": await call("whiteboard_get", user_id="u", conversation_id=name),
        "board listed": await call("whiteboard_list", user_id=name),
    }
    listed = await call("memory_list_dir_with_abstract", session_id=name)
    return {
        style: "zanzibar" in str(answer)
        for style, answer in told.items()
        if style != "board listed"
    } | {
        "board listed": told["board listed"]["boards"] != [],
        "files": listed["summaries"] != [],
    }


@pytest.mark.slow
async def test_no_name_is_taken_for_another_one(call: Door) -> None:
    mixed = []
    for number, pair in enumerate(OTHERS):
        for one, other in (pair, pair[::-1]):
            inside = call.as_tenant(alone(number, one))
            await keep(inside, one)
            here, there = await found(inside, one), await found(inside, other)
            mixed += [(one, style) for style, there_is in here.items() if not there_is]
            mixed += [(one, other, style) for style, there_is in there.items() if there_is]
    assert mixed == []


async def test_a_name_is_the_same_however_its_letters_are_composed(call: Door) -> None:
    for number, pair in enumerate(SAME):
        for one, other in (pair, pair[::-1]):
            inside = call.as_tenant(alone(number, one))
            await keep(inside, one)
            assert all((await found(inside, other)).values()), (one, other)


async def test_tags_ids_and_paths_are_patterns_nowhere_but_where_that_is_said(call: Door) -> None:
    for name in ("x_y", "xay", "x%y", "xabcy", "x.y"):
        await call("elfmem_remember", content=f"zanzibar has {name}", tags=[name])
        await call(
            "update_document",
            content="".join(f"[[{one}]]\n" for one in ("x_y", "xay", "x%y", "xabcy", "x.y")),
        )
        await call("update_document", id=name, content=f"zanzibar has {name}")
        await call(
            "file_write", project="default", path=f"/{name}/f.md", content=f"zanzibar has {name}"
        )
    for name in ("x_y", "x%y", "x.y"):
        hits = (
            await call("file_search", project="default", query="zanzibar", path_prefix=f"/{name}")
        )["chunks"]
        assert {hit["file_path"] for hit in hits} == {f"/{name}/f.md"}
        listed = (await call("file_list", project="default", path=f"/{name}"))["entries"]
        assert [entry["path"] for entry in listed] == [f"/{name}/f.md"]
        assert (await call("read_document", id=name))["text"].count("zanzibar") == 1
        await call("file_delete", project="default", path=f"/{name}", recursive=True)
    left = (await call("file_list", project="default", path="", depth=2))["entries"]
    assert {"/xay", "/xabcy"} <= {entry["path"] for entry in left}
    tagged = (await call("elfmem_ls", tag="x.y"))["result"]
    assert [block["content"] for block in tagged] == ["zanzibar has x.y"]
    for pattern in ("%" * 128, "%x" * 64, "_" * 128, "\\", "\\\\%", "[", "(", "x" * 128):
        await call("elfmem_ls", tag=pattern)
