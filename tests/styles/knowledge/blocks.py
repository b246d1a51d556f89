"""Blocks as tests keep and recall them."""

from typing import Any

from memsvc.styles.knowledge.options import KnowledgeOptions
from tests.door import Door

PATIENT = KnowledgeOptions(inbox_threshold=1000)
"""Nothing is consolidated unless a test says so."""


async def remember(door: Door, content: str, *tags: str, **more: Any) -> str:
    """Keep a block; its id."""
    return str(
        (await door("elfmem_remember", content=content, tags=list(tags), **more))["block_id"]
    )


async def learn(door: Door, content: str, *tags: str, **more: Any) -> str:
    """Keep a block and consolidate it; its id."""
    block_id = await remember(door, content, *tags, **more)
    await door("elfmem_dream")
    return block_id


async def recall(door: Door, query: str = "", **more: Any) -> dict[str, Any]:
    return await door("elfmem_recall", query=query, **more)


def shown(recalled: dict[str, Any]) -> list[str]:
    """The texts of the blocks that a recall shows."""
    return [block["content"] for block in recalled["blocks"]]


def dropped(recalled: dict[str, Any]) -> dict[str, str]:
    """Why a recall does not show what it found, by text."""
    return {block["content"]: block["reason"] for block in recalled["dropped"]}


async def listed(door: Door, **more: Any) -> dict[str, dict[str, Any]]:
    """The blocks that are not archived, by text."""
    return {
        block["content"]: block for block in (await door("elfmem_ls", limit=1000, **more))["result"]
    }


async def block(door: Door, content: str) -> dict[str, Any]:
    return (await listed(door))[content]
