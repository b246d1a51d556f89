"""Whatever is done to files in whatever order, search finds what they hold now, and the index is
what they hold."""

import random
import re
from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any

import asyncpg
import pytest

from memsvc.core.analysis import terms
from memsvc.core.chunks import chunks
from memsvc.store.index import LENGTH_MAX
from memsvc.styles.files.file_store import is_text
from memsvc.styles.files.options import SearchOptions
from tests.door import Refused
from tests.styles.files.conftest import FileDoor

pytestmark = pytest.mark.anyio
WORDS = ("walrus", "zeppelin", "kumquat", "marzipan", "obsidian", "東京", "морж")
PATHS = ("/a", "/d/b", "/d/e/c", "/d/e/f", "/g")
DIRECTORIES = ("/d", "/d/e", "/h", "/h/e")
BROKEN = "//8="
SIZE_MAX = 7000


class Model:
    """What the files hold, and the random steps that change both."""

    def __init__(self, files: FileDoor, chance: random.Random) -> None:
        self.files = files
        self.chance = chance
        self.held: dict[str, bytes] = {}

    def text(self) -> str:
        """A few words, or many with headings and line ends of all kinds."""
        ends = (
            " ",
            " ",
            " ",
            "\n",
            "\n\n",
            "\r\n",
            " \x00 ",
            "\n# Part ",
            "\n```\n",
            "。 ",
            " Etc. ",
        )
        known = WORDS[: self.chance.randint(1, len(WORDS))]
        words = self.chance.choices(known, k=self.chance.choice((0, 1, 3, 90, 300)))
        return self.chance.choice(("", " ", "\n\n")) + "".join(
            word + self.chance.choice(ends) for word in words
        )

    async def step(self) -> str:
        """One change, of the service and, unless it was refused, of the model; what it was."""
        done = self.chance.choice((self.write, self.write, self.append, self.append, self.overwrite, self.spoil,
                                   self.delete, self.delete_tree, self.rename, self.rename_tree))  # fmt: skip
        try:
            await done()
        except Refused as refused:
            return f"{done.__name__} refused: {refused}"
        return done.__name__

    def live(self) -> str:
        return self.chance.choice(sorted(self.held) or PATHS)

    async def write(self) -> None:
        path, text = self.chance.choice(PATHS), self.text()
        await self.files.write(path, text, mode="TRUNCATE")
        self.held[path] = text.encode()

    async def append(self) -> None:
        path, text = self.chance.choice((self.live(), self.chance.choice(PATHS))), self.text()
        if len(self.held.get(path, b"")) > SIZE_MAX:
            return
        await self.files.write(path, text)
        self.held[path] = self.held.get(path, b"") + text.encode()

    async def overwrite(self) -> None:
        path, text = self.live(), self.text()
        old = self.held.get(path, b"")
        offset = self.chance.randint(0, len(old))
        await self.files.write(path, text, mode="OVERWRITE", offset=offset)
        self.held[path] = old[:offset] + text.encode() + old[offset + len(text.encode()) :]

    async def spoil(self) -> None:
        path, mode = self.live(), self.chance.choice(("APPEND", "TRUNCATE"))
        await self.files.write(path, BROKEN, content_encoding="base64", mode=mode)
        self.held[path] = (self.held.get(path, b"") if mode == "APPEND" else b"") + b"\xff\xff"

    async def delete(self) -> None:
        path = self.live()
        await self.files("delete", path=path)
        del self.held[path]

    async def delete_tree(self) -> None:
        path = self.chance.choice(DIRECTORIES)
        await self.files("delete", path=path, recursive=True)
        self.held = {
            one: content for one, content in self.held.items() if not one.startswith(path + "/")
        }

    async def rename(self) -> None:
        source, destination = self.live(), self.chance.choice(PATHS)
        overwrite = self.chance.random() < 0.5
        await self.files("rename", from_path=source, to_path=destination, overwrite=overwrite)
        self.held[destination] = self.held.pop(source)

    async def rename_tree(self) -> None:
        source, destination = self.chance.sample(DIRECTORIES, 2)
        await self.files("rename", from_path=source, to_path=destination)
        self.held = {
            destination + path.removeprefix(source)
            if path.startswith(source + "/")
            else path: content
            for path, content in self.held.items()
        }

    def texts(self) -> dict[str, str]:
        """The files that are text."""
        return {path: content.decode() for path, content in self.held.items() if is_text(content)}


def says(text: str, word: str) -> bool:
    """Whether a text has all terms of a word."""
    there = set(chain.from_iterable(terms(line) for line in re.split(r"\n", text)))
    return set(terms(word)) <= there


async def indexed(admin: asyncpg.Connection, path: str) -> list[tuple[int, int, str, str]]:
    rows = await admin.fetch(
        """SELECT start, e.size_bytes, text, cues FROM entries AS e
        JOIN files AS f ON f.incarnation = e.ref::uuid AND f.stream = e.stream
        WHERE f.path = $1 AND f.deleted_at IS NULL ORDER BY start""",
        path,
    )
    return [tuple(row) for row in rows]


async def check_index(admin: asyncpg.Connection, texts: dict[str, str]) -> None:
    """Once all jobs are done, there are the pieces of the files' present texts, and nothing else
    anywhere."""
    pieces = 0
    for path, text in texts.items():
        wanted = [
            (
                one.start,
                len(one.text.encode()),
                one.text,
                f"{path}\n{one.context}" if one.context else path,
            )
            for one in chunks(text.replace("\x00", " "))
        ]
        assert await indexed(admin, path) == wanted
        pieces += len(wanted)
    rows = await admin.fetch("SELECT entry, text, cues FROM entries")
    entries = {row["entry"]: terms(f"{row['text']}\n{row['cues']}") for row in rows}
    assert len(entries) == pieces
    book = await admin.fetchrow("SELECT entries, length FROM books")
    if book is not None:
        assert tuple(book) == (pieces, sum(map(len, entries.values())))
    hits = Counter[tuple[str, int]]()
    for row in await admin.fetch(
        "SELECT term, unnest(hits) AS hit FROM posting_lists UNION ALL SELECT unnest(terms),"
        " unnest(hits) FROM fresh_terms"
    ):
        hits[row["term"], row["hit"] >> 32] += row["hit"] >> 16 & LENGTH_MAX
    assert hits == Counter((term, entry) for entry, held in entries.items() for term in held)


async def found(files: FileDoor, word: str) -> set[str]:
    return {chunk["file_path"] for chunk in (await files("search", query=word))["chunks"]}


@pytest.mark.one_server("it joins shards by other columns")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("at_once_bytes", [128 * 1024, 700])
async def test_search_finds_what_the_files_hold_now(
    with_limits: Callable[..., FileDoor],
    admin: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    at_once_bytes: int,
) -> None:
    for module in ("indexing", "file_writer"):
        monkeypatch.setattr(f"memsvc.styles.files.{module}.AT_ONCE_BYTES", at_once_bytes)
    files = with_limits(search=SearchOptions(limit_default=100, limit_max=100, candidates=1000))
    model = Model(files, random.Random(seed))
    steps: list[Any] = []
    for _ in range(45):
        steps.append(await model.step())
        word = model.chance.choice(WORDS)
        wanted = {path for path, text in model.texts().items() if says(text, word)}
        if at_once_bytes > 2 * SIZE_MAX:
            assert await found(files, word) == wanted, steps
        else:
            assert await found(files, word) <= set(model.texts()), steps
        if model.chance.random() < 0.3:
            await files.call.work()
            steps.append("work")
            await check_index(admin, model.texts())
            for word in WORDS:
                wanted = {path for path, text in model.texts().items() if says(text, word)}
                assert await found(files, word) == wanted, (steps, word)
    assert Counter(map(str, steps)).keys() >= {
        "write",
        "append",
        "overwrite",
        "rename",
        "delete",
        "work",
    }
