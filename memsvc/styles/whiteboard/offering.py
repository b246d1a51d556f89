"""MCP resources of whiteboards: their list, and completion of users and conversations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from memsvc.core.paths import encode_segment
from memsvc.core.resources import Completion, Listing, Readable, Resource
from memsvc.core.scope import Scope
from memsvc.store import tree
from memsvc.store.database import Database
from memsvc.styles.whiteboard.boards import ROOT, BoardId, Boards, directory_of

LIST_TOOL: Final = "whiteboard_list"


def listed(resource: Resource, boards: Boards) -> Resource:
    """Return the resource of boards, with a list of them."""

    async def page(scope: Scope, after: str, most: int) -> Sequence[Readable]:
        found = await boards.listing(scope, None, after=after, most=most)
        return [
            Readable(
                values={"user_id": one.of.user, "conversation_id": one.of.conversation},
                place=one.of.path,
                title=one.of.title,
                updated_at=one.updated_at,
            )
            for one in found
        ]

    return replace(resource, listing=Listing(LIST_TOOL, page))


def completions(database: Database) -> dict[str, Completion]:
    """Return completions of users who have boards, and of the conversations of one."""

    async def below(scope: Scope, directory: str, beginning: str, most: int) -> list[BoardId]:
        async with database.begin(scope, read_only=True) as tx:
            after = f"{directory}/{encode_segment(beginning)}" if beginning else ""
            rows = await tree.walk(tx, directory, depth=1, after=after, most=most)
        return [of for row in rows if (of := BoardId.of(row["path"])) is not None]

    async def find_users(scope: Scope, beginning: str, _: Mapping[str, str], most: int) -> Sequence[str]:
        found = await below(scope, ROOT, beginning, most)
        return [of.user for of in found if of.user.startswith(beginning)]

    async def find_conversations(scope: Scope, beginning: str, others: Mapping[str, str], most: int) -> Sequence[str]:
        user = others.get("user_id")
        if not user:
            return []
        found = await below(scope, directory_of(user), beginning, most)
        return [of.conversation for of in found if of.conversation.startswith(beginning)]

    return {
        "user_id": Completion(LIST_TOOL, find_users),
        "conversation_id": Completion(LIST_TOOL, find_conversations),
    }
