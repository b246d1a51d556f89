"""A tenant with something of everything, and all rows of all tables, to see what a purge takes."""

import json
from typing import Any

import asyncpg

from migrations.schema import TENANT_TABLES
from tests.door import Door


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


async def talk(
    call: Door, session: str, user: str, word: str, *, project: str = "default", turn: str = "t1"
) -> Any:
    """A turn that leaves items, a fact about the user, and a job or two."""
    return await call(
        "memory_after_turn",
        project=project,
        session_id=session,
        turn_id=turn,
        user_id=user,
        input_items=[said(f"My name is {word}. I like {word} tea.")],
        output_items=[said(f"Welcome, {word}.", "assistant")],
    )


async def fill(call: Door, project: str, mark: str) -> None:
    """Something of everything that the tools keep, for users and sessions that begin alike."""
    for user, session in ((f"{mark}u", f"{mark}s1"), (f"{mark}u2", f"{mark}s10")):
        await talk(call, session, user, f"{mark}Ann{user}", project=project)
        await call(
            "memories_add",
            project=project,
            user_id=user,
            messages=[{"role": "user", "content": "I live in Rome."}],
        )
        await call(
            "context_update",
            project=project,
            user_id=user,
            conversation_id="c",
            entries=[{"role": "user", "content": f"{mark} likes tea"}],
        )
    for path in (f"/{mark}/a", f"/{mark}/ab", f"/{mark}/a_b"):
        await call(
            "file_write", project=project, path=path, content=f"about {mark}", mode="TRUNCATE"
        )
        await call(
            "file_write", project=project, path=path, content=f"about {mark} again", mode="TRUNCATE"
        )
    await call(
        "file_write",
        project=project,
        path=f"/{mark}/gone/x",
        content=f"{mark} was here",
        mode="TRUNCATE",
    )
    await call("file_delete", project=project, path=f"/{mark}/gone/x")
    await call(
        "elfmem_remember", project=project, content=f"The coast of {mark} is white.", tags=[mark]
    )
    await call(
        "elfmem_remember", project=project, content=f"The cloves of {mark} are brown.", tags=[mark]
    )
    await call(
        "update_document", project=project, id="root", content=f"# About {mark}\n- [[{mark}]]\n"
    )
    many = [said(f"{mark} says {number}", "assistant") for number in range(40)]
    await call(
        "memory_after_turn",
        project=project,
        session_id=f"{mark}s10",
        turn_id="t2",
        output_items=many,
    )
    await call(
        "memories_put_prompt",
        project=project,
        prompt=f"Find what is said of {mark} in\n{{conversation}}",
    )


async def rows(admin: asyncpg.Connection) -> dict[str, list[dict[str, Any]]]:
    """Every row of every tenant, as JSON, but those of the call log that tell of purges."""
    where = {"calls": "WHERE tool <> 'tenant_purge'"}
    return {
        table: sorted(
            (
                json.loads(row[0])
                for row in await admin.fetch(
                    f"SELECT to_jsonb(t)::text FROM {table} AS t {where.get(table, '')}"
                )
            ),
            key=json.dumps,
        )
        for table in (*TENANT_TABLES, "embeddings")
        if await admin.fetchval("SELECT to_regclass($1) IS NOT NULL", table)
    }


async def queued(admin: asyncpg.Connection) -> list[str]:
    return [
        row[0] for row in await admin.fetch("SELECT headers::text FROM memsvc_queue ORDER BY id")
    ]


def of(
    held: dict[str, list[dict[str, Any]]], tenant: bytes, project: str | None
) -> dict[str, list[dict[str, Any]]]:
    """The rows of a tenant, or of one of its projects."""
    return {
        table: [
            row
            for row in found
            if row["tenant"] == f"\\x{tenant.hex()}"
            and (project is None or row.get("project", project) == project)
        ]
        for table, found in held.items()
    }


def without(
    held: dict[str, list[dict[str, Any]]], tenant: bytes, project: str | None
) -> dict[str, Any]:
    """The rows of everybody else."""
    gone = of(held, tenant, project)
    return {
        table: [row for row in found if row not in gone[table]]
        for table, found in held.items()
        if not (project is not None and table == "usage")
    }


async def purge(
    call: Door, level: str, name: str = "", *, project: str = "default", **more: Any
) -> dict[str, Any]:
    return await call(
        "tenant_purge", project=project, level=level, name=name, confirm=name or project, **more
    )
