"""MCP resources of whiteboards: their list, and completion of users and conversations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from memsvc.core.paths import encode_segment
from memsvc.core.resources import Completion, ListedResource, Resource, ResourceListing
from memsvc.core.scope import Scope
from memsvc.store import tree
from memsvc.store.database import Database
from memsvc.styles.whiteboard.boards import ROOT, BoardId, Boards, directory_of

LIST_TOOL: Final = "whiteboard_list"


class _BoardArgs(Protocol):
    """Arguments that name a board."""

    @property
    def user_id(self) -> str: ...

    @property
    def conversation_id(self) -> str: ...


def listed(resource: Resource, boards: Boards) -> Resource:
    """Return the resource of boards, with a list of them, and their versions as stamps."""

    async def page(scope: Scope, after: str, limit: int) -> Sequence[ListedResource]:
        found = await boards.listing(scope, None, after=after, limit=limit)
        return [
            ListedResource(
                values={"user_id": one.user_id, "conversation_id": one.conversation_id},
                place=one.path,
                title=BoardId(one.user_id, one.conversation_id).title,
                updated_at=one.updated_at,
            )
            for one in found
        ]

    async def stamps(scope: Scope, requests: Sequence[_BoardArgs]) -> Sequence[str | None]:
        return await boards.versions(
            scope, [BoardId(request.user_id, request.conversation_id) for request in requests]
        )

    return replace(resource, listing=ResourceListing(LIST_TOOL, page), stamps=stamps)


def completions(database: Database) -> dict[str, Completion]:
    """Return completions of users who have boards, and of the conversations of one."""

    async def list_boards(scope: Scope, directory: str, prefix: str, limit: int) -> list[BoardId]:
        async with database.begin(scope, read_only=True) as tx:
            after = f"{directory}/{encode_segment(prefix)}" if prefix else ""
            rows = await tree.walk(tx, directory, depth=1, after=after, limit=limit)
        return [of for row in rows if (of := BoardId.of(row["path"])) is not None]

    async def find_users(
        scope: Scope, prefix: str, _: Mapping[str, str], limit: int
    ) -> Sequence[str]:
        found = await list_boards(scope, ROOT, prefix, limit)
        return [of.user for of in found if of.user.startswith(prefix)]

    async def find_conversations(
        scope: Scope, prefix: str, others: Mapping[str, str], limit: int
    ) -> Sequence[str]:
        user = others.get("user_id")
        if not user:
            return []
        found = await list_boards(scope, directory_of(user), prefix, limit)
        return [of.conversation for of in found if of.conversation.startswith(prefix)]

    return {
        "user_id": Completion(LIST_TOOL, find_users),
        "conversation_id": Completion(LIST_TOOL, find_conversations),
    }
