"""Words planted through every style, and every column of every table in which one of them
stands."""

import re
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final

import asyncpg

from memsvc.styles.turns.maintenance.raw_archive import decompress
from tests.administration.purged import said
from tests.door import Door

ZSTD: Final = b"\x28\xb5\x2f\xfd"
_COLUMNS: Final = """
    SELECT n.nspname AS schema, c.relname AS name, array_agg(quote_ident(a.attname)
        ORDER BY a.attnum) AS columns
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_attribute AS a
        ON a.attrelid = c.oid
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
        AND n.nspname NOT IN ('pg_catalog', 'information_schema')
    GROUP BY 1, 2 ORDER BY 1, 2
"""


async def places(admin: asyncpg.Connection, words: Collection[str]) -> dict[str, set[str]]:
    """In which columns of which tables each of these words stands, packed content unpacked; of all
    tables there are, those of the queue too. A partition counts as its table."""
    found: dict[str, set[str]] = defaultdict(set)
    any_of = re.compile("|".join(sorted(map(re.escape, words), key=len, reverse=True)))
    for table in await admin.fetch(_COLUMNS):
        shown = ", ".join(f"{one}::text AS {one}" for one in table["columns"])
        for row in await admin.fetch(f'SELECT {shown} FROM "{table["schema"]}"."{table["name"]}"'):
            for column, value in row.items():
                for word in any_of.findall(readable(value or "").lower()):
                    found[word].add(f"{table['name']}.{column}")
    return found


def readable(value: str) -> str:
    """A value as people read it: bytes as the text that they are or, unpacked, that they hold."""
    if not value.startswith("\\x"):
        return value
    content = bytes.fromhex(value[2:])
    if content.startswith(ZSTD):
        with suppress(ValueError):
            content = decompress(content, bytes_max=1 << 24)
    return content.decode("utf-8", "replace")


class Garden:
    """One project with words of its own: `content` is said in it, `user`, `friend`, `session` and
    `path` are names."""

    def __init__(self, call: Door, mark: str) -> None:
        self.call = call
        self.project = f"p-{mark}"
        self.content, self.user, self.friend, self.session, self.path = (
            f"zq{mark}{kind}xk" for kind in ("content", "user", "friend", "session", "path")
        )

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.call(tool, project=self.project, **arguments)

    @property
    def words(self) -> set[str]:
        return {self.content, self.user, self.friend, self.session, self.path}

    async def talk(self, turn: str, user: str, *items: str, session: str = "") -> None:
        """A turn of a session, the canary's unless another is named."""
        await self(
            "memory_after_turn",
            session_id=session or self.session,
            turn_id=turn,
            user_id=user,
            input_items=[said(text) for text in items],
            output_items=[said(f"So much for {self.content}.", "assistant")],
        )

    async def turns(self, *, shared: bool = True) -> None:
        """A session with digests, a summary, packed days, facts, an insight and a trace in another
        session of its user; if `shared`, another user speaks in it at last."""
        await self.talk(
            "t0",
            self.user,
            f"My name is {self.content}.",
            *(f"Plan {n} is fine." for n in range(70)),
        )
        await self.talk(
            "t1", self.user, f"As I said, my name is {self.content}.", f"Then {self.content} it is."
        )
        await self.call.work()
        await self("memory_run_maintenance", session_id=self.session)
        async with self.call.at_work():
            await self(
                "memory_before_turn",
                session_id="work",
                user_id=self.user,
                current_input=f"{self.content}?",
            )
        if shared:
            await self.talk("t2", self.friend, f"I like {self.content} too.")
        await self("memory_list_facts", session_id=self.session)
        await self("file_list", path=f"/memory/{self.session}")

    async def everything(self) -> None:
        """Something by each other style."""
        await self.turns()
        turn = [{"role": "user", "content": f"I live in {self.content}."}]
        await self(
            "memories_add", user_id=self.user, messages=turn, metadata={"session_id": self.session}
        )
        await self.board()
        await self.file()
        await self(
            "elfmem_remember", content=f"The coast of {self.content} is white.", tags=[self.content]
        )
        await self.document()
        await self("memories_put_prompt", prompt=f"Find {self.content} in\n{{conversation}}")

    async def board(self) -> None:
        for text in (f"We sail to {self.content}.", "The port is open."):
            entries = [{"role": "user", "content": text}]
            await self("context_update", user_id=self.user, conversation_id="c", entries=entries)

    async def file(self) -> None:
        for text in (f"About {self.content}.", f"More of {self.content}."):
            await self("file_write", path=f"/{self.path}/f.md", content=text, mode="TRUNCATE")

    async def document(self) -> None:
        await self("update_document", id="root", content=f"# Notes\n- [[{self.path}]]\n")
        await self("update_document", id=self.path, content=f"# On {self.content}\nText.\n")
