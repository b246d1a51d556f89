"""What is no archive, or not all of one, is refused, and nothing of it is written."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable
from typing import Any

import asyncpg
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsvc.administration.archive_format import is_valid
from memsvc.administration.archive_reader import TenantArchiveReader
from memsvc.core.errors import Code, MemsvcError
from memsvc.store.export import CALLS, FILES, PLAIN, Column, Table
from tests.administration.archived import exported, restored, rows, write
from tests.door import Door

pytestmark = pytest.mark.anyio

Members = list[tuple[str, bytes]]
Change = Callable[[Members], Members]


def opened(archive: bytes) -> Members:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return [
            (one.name, file.read()) for one in tar if (file := tar.extractfile(one)) is not None
        ]


def packed(members: Members) -> bytes:
    """An archive of these members, with sums that are right: whoever makes one to do harm gets them
    right."""
    told = [
        (name, content)
        for name, content in members
        if not name.startswith("checksums/") and name != "end.json"
    ]
    sums = "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in told
    ).encode()
    (end,) = [orjson.loads(content) for name, content in members if name == "end.json"]
    end |= {
        "members": len(told),
        "content_bytes": sum(len(content) for _, content in told),
        "checksums": [hashlib.sha256(sums).hexdigest()],
    }
    return plain([*told, ("checksums/000001.sha256", sums), ("end.json", orjson.dumps(end))])


def plain(members: Members) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def member(name: str, change: Callable[[bytes], bytes]) -> Change:
    return lambda members: [
        (one, change(content) if one == name else content) for one, content in members
    ]


def row(table: str, **columns: Any) -> Change:
    def change(content: bytes) -> bytes:
        found = [orjson.loads(line) for line in content.splitlines()]
        found[0] |= columns
        return b"".join(orjson.dumps(one) + b"\n" for one in found)

    return member(f"projects/default/rows/{table}/00000001.jsonl", change)


def renamed(old: str, new: str) -> Change:
    return lambda members: [(new if name == old else name, content) for name, content in members]


def manifest(**said: Any) -> Change:
    return member("manifest.json", lambda content: orjson.dumps(orjson.loads(content) | said))


HEAVY = "projects/default/files/heavy.md"
FACTS = "projects/default/rows/entries/00000001.jsonl"
HARM: dict[str, Change] = {
    "a newer format": manifest(format=2, more="than we know"),
    "a newer schema": manifest(schema_revision="9999"),
    "a schema that is none": manifest(schema_revision="../../x"),
    "a project that is none": manifest(projects=["a/b"]),
    "a project twice": manifest(projects=["default", "default"]),
    "a project that the manifest does not tell of": manifest(projects=["other"]),
    "more in the manifest": manifest(tenant="00" * 32),
    "a name that leads up": renamed(HEAVY, "projects/default/files/../../etc/passwd"),
    "a name from the root": renamed(HEAVY, "/etc/passwd"),
    "another table": renamed(FACTS, "projects/default/rows/api_keys/00000001.jsonl"),
    "a part too many": renamed(FACTS, "projects/default/rows/entries/00000002.jsonl"),
    "a member twice": lambda found: [
        one for one in found for _ in range(2 if one[0] == FACTS else 1)
    ],
    "a member less": lambda found: [one for one in found if one[0] != HEAVY],
    "members in another order": lambda found: [found[0], *reversed(found[1:])],
    "no manifest": lambda found: found[1:],
    "a tenant in a row": row("entries", tenant="00" * 32),
    "a project in a row": row("entries", project="other"),
    "a column that is none": row("entries", more=1),
    "a text with NUL": row("entries", text="a\0b"),
    "JSON with NUL": row("sessions", counters={"a\0b": 1}),
    "a text for a number": row("entries", entry="1"),
    "true for a number": row("entries", entry=True),
    "a number that is too large": row("entries", entry=2**31),
    "null where none may be": row("entries", text=None),
    "a time without a zone": row("entries", said_at="2026-01-05T12:00:00"),
    "no base64": row("files", sha256="%%%"),
    "no UUID": row("files", incarnation="x"),
    "a path that leads up": row("files", path="/../x.md"),
    "a path of the memory itself": row("files", path="/memory/x.md"),
    "a file that says it is smaller": row("files", size_bytes=0),
    "a file without streams": row("files", streams=None),
    "a stream that is none": row("files", streams=[1]),
    "a block of nothing": row(
        "files", streams=[{"stream": 1, "first_revision": 1, "created_at": None, "blocks": [[0]]}]
    ),
    "a state of a fact that is none": row("facts", state="wild"),
    "a book under another number": row("books", name="another"),
    "a book whose next entry is far away": row("books", next_entry=2_147_478_648),
    "a session that begins before its first entry": row("sessions", context_start=-1),
    "a session that was consolidated far away": row("sessions", consolidated_entry=2**30),
    "a time that no PostgreSQL keeps": row("facts", valid_from="0001-01-01T00:00:00+14:00"),
    "evidence that is a word": row("facts", evidence="x"),
    "evidence of more than there is": row("facts", evidence={"session": "s", "more": 1}),
    "counters that are no numbers": row("sessions", counters={"turns": "many"}),
    "a policy that is a list": row("sessions", policy=[]),
    "a summary that stands nowhere": row("sessions", summary={}),
    "an answer that is a number": row("guards", result=1),
    "a book of one endless segment": row("books", segment_bits=31),
    "no JSON": member(FACTS, lambda _: b"{\n"),
    "no object": member(FACTS, lambda _: b"[1]\n"),
    "deep JSON": member(FACTS, lambda _: b"[" * 100_000 + b"\n"),
    "a half surrogate": member(FACTS, lambda _: b'{"text": "\\ud800"}\n'),
    "no UTF-8": member(FACTS, lambda _: b'{"text": "\xff"}\n'),
    "a line without an end": member(FACTS, lambda content: content[:-1]),
    "rows that nobody told of": member(
        "end.json", lambda content: orjson.dumps(orjson.loads(content) | {"rows": {"entries": 1}})
    ),
}


async def memory(call: Door) -> bytes:
    """A small memory of facts and files as an archive."""
    said = {"type": "message", "role": "user", "content": "My name is Ada. I like herons."}
    await call(
        "memory_after_turn",
        project="default",
        session_id="s",
        turn_id="t",
        user_id="u",
        input_items=[said],
    )
    await write(call, "/heavy.md", "heron " * 60_000)
    await call.work()
    return await exported(call)


async def nothing_of(call: Door, admin: asyncpg.Connection, archive: bytes, *codes: str) -> None:
    for check in (True, False):
        with pytest.raises(MemsvcError) as refusal:
            await restored(call, archive, check=check)
        assert refusal.value.code in codes
    assert not any((await rows(admin, call.caller.tenant)).values())


async def test_what_is_no_archive_is_refused_and_nothing_of_it_is_written(
    call: Door, other_call: Door, admin: asyncpg.Connection
) -> None:
    members = opened(await memory(call))
    for harm, change in HARM.items():
        changed = change(members)
        assert changed != members, harm
        try:
            await nothing_of(other_call, admin, packed(changed), "INVALID_CONTENT", "CONFLICT")
        except BaseException as error:
            error.add_note(harm)
            raise
    assert [one.written for one in (await restored(other_call, packed(members))).projects] == [True]


def test_json_has_the_shape_that_its_readers_need() -> None:
    shown = {
        "kind": "fact",
        "ref": "f",
        "shown": True,
        "score": 1,
        "position": 1,
        "place": [7, 0],
        "parts": {"bm25": 0.5},
    }
    told = {"candidates": [shown], "limits": {}}
    rests = {"facts": ["user_name"], "turns": [{"session": "s", "turn": "t"}], "holds": [[7, 0]]}
    place = {
        "event": "e",
        "path": "/p",
        "stream": 1,
        "start": 0,
        "size_bytes": 9,
        "first": 0,
        "next_entry": 4,
    }
    taught = {"session": "s", "turn": "t", "item": "i", "user": ""}
    for table, column, value in (
        ("recalls", "told", told),
        ("insights", "evidence", rests),
        ("sessions", "summary", place),
        ("facts", "evidence", taught),
        ("facts", "evidence", taught | {"origin": "model"}),
    ):
        assert is_valid(table, column, value)
    for table, column, wrong in (
        ("recalls", "told", []),
        ("recalls", "told", told | {"candidates": [shown | {"place": [7]}]}),
        ("recalls", "told", told | {"candidates": [{"kind": "fact"}]}),
        ("recalls", "told", told | {"candidates": [shown | {"ref": None}]}),
        ("sessions", "summary", place | {"more": 1}),
        ("sessions", "summary", place | {"first": "0"}),
        ("insights", "evidence", rests | {"turns": ["t"]}),
        ("insights", "evidence", rests | {"holds": 1}),
        ("memories", "metadata", "x"),
        ("facts", "evidence", taught | {"user": None}),
        ("facts", "evidence", taught | {"more": ""}),
        ("facts", "evidence", {"session": "s"}),
    ):
        assert not is_valid(table, column, wrong)


async def test_an_archive_that_ends_early_or_was_changed_on_its_way_is_refused(
    call: Door, other_call: Door, admin: asyncpg.Connection
) -> None:
    archive = await memory(call)
    flipped = bytearray(archive)
    flipped[archive.index(b"heron heron") + 1] ^= 1
    for broken in (
        b"",
        b"no archive",
        archive[: len(archive) // 2],
        archive[:-512],
        archive[:-1024],
        archive + b"x",
        bytes(flipped),
        gzip.compress(archive)[:-9],
        b"\x1f\x8b" + b"x" * 100,
        plain([(name, content) for name, content in opened(archive) if name != "end.json"]),
    ):
        await nothing_of(other_call, admin, broken, "INVALID_CONTENT")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE]
)
async def test_an_archive_holds_plain_files_alone(
    call: Door, other_call: Door, admin: asyncpg.Connection, kind: bytes
) -> None:
    members = opened(await memory(call))
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = (
                (kind, "/etc/passwd", 0) if name == HEAVY else (b"0", "", len(content))
            )
            tar.addfile(info, None if name == HEAVY else io.BytesIO(content))
    await nothing_of(other_call, admin, file.getvalue(), "INVALID_CONTENT")


async def test_sizes_are_believed_as_far_as_they_may_go(
    call: Door, other_call: Door, admin: asyncpg.Connection
) -> None:
    archive = await memory(call)
    huge = tarfile.TarInfo("manifest.json")
    huge.size = 8 * 2**30 - 1
    await nothing_of(
        other_call, admin, huge.tobuf(tarfile.PAX_FORMAT) + archive[512:], "PAYLOAD_TOO_LARGE"
    )
    with pytest.raises(MemsvcError) as refusal:
        await restored(other_call, gzip.compress(archive), expanded_bytes_max=len(archive) - 20_000)
    assert refusal.value.code is Code.PAYLOAD_TOO_LARGE
    assert not any((await rows(admin, other_call.caller.tenant)).values())


_TABLES = {
    name: Table(
        name,
        (Column("entry", "integer", False, True), Column("text", "text", False, True)),
        ("entry",),
    )
    for name in (*PLAIN, *FILES, CALLS)
}


def steps(archive: bytes) -> None:
    for _ in TenantArchiveReader(_TABLES, "0001", expanded_bytes_max=10**6).steps(
        io.BytesIO(archive)
    ):
        pass


_WHOLE = packed(
    [
        (
            "manifest.json",
            orjson.dumps(
                {
                    "format": 1,
                    "memsvc": "1",
                    "schema_revision": "0001",
                    "archive": "0" * 32,
                    "made_at": "2026-01-05T12:00:00Z",
                    "projects": ["default"],
                    "calls": False,
                }
            ),
        ),
        ("projects/default/rows/entries/00000001.jsonl", b'{"entry":1,"text":"heron"}\n'),
        ("end.json", b'{"rows":{"entries":1}}'),
    ]
)


def test_an_untouched_archive_is_read() -> None:
    steps(_WHOLE)
    steps(gzip.compress(_WHOLE))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    at=st.integers(0, len(_WHOLE) - 1),
    put=st.binary(max_size=40),
    cut=st.integers(0, 2000),
    compress=st.booleans(),
)
def test_a_tar_that_was_tampered_with_is_refused_or_says_the_same(
    at: int, put: bytes, cut: int, compress: bool
) -> None:
    tampered = _WHOLE[:at] + put + _WHOLE[at + cut :]
    if compress:
        tampered = gzip.compress(tampered, mtime=0)
    try:
        steps(tampered)
    except MemsvcError as error:
        if error.code not in (Code.INVALID_CONTENT, Code.PAYLOAD_TOO_LARGE):
            raise


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=3000))
def test_bytes_that_mean_nothing_are_refused(noise: bytes) -> None:
    for archive in (noise, b"\x1f\x8b" + noise, _WHOLE[:1024] + noise):
        with pytest.raises(MemsvcError) as refusal:
            steps(archive)
        assert refusal.value.code in (Code.INVALID_CONTENT, Code.PAYLOAD_TOO_LARGE)
