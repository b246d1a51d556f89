"""MCP resources of sessions, completion of session names, and the guide to a turn."""

from collections.abc import Mapping, Sequence
from importlib.resources import files as resources
from typing import Final, Protocol

from memsvc.core.resources import Completion, Guide, ListedResource, Resource, ResourceListing
from memsvc.core.scope import Scope
from memsvc.store import sessions
from memsvc.store.database import Database

LIST_TOOL: Final = "memory_list_dir_with_abstract"
FACTS: Final = Resource(
    template="memsvc://{project}/sessions/{session_id}/facts",
    name="session facts",
    title="Facts of a session",
    description="What memory holds to be true for a session, as JSON: the first page of"
    " memory_list_facts.",
    mime_type="application/json",
)
PROFILE: Final = Resource(
    template="memsvc://{project}/users/{user_id}/profile",
    name="profile",
    title="Profile of a user",
    description="What is known of a person, a line a fact: memory_profile.",
    text="text",
)


class _SessionArgs(Protocol):
    """Arguments that name a session."""

    @property
    def session_id(self) -> str: ...


def session_resource(database: Database) -> Resource:
    """Return the resource of a session: the directories of its memory, with abstracts."""

    async def page(scope: Scope, after: str, limit: int) -> Sequence[ListedResource]:
        async with database.begin(scope, read_only=True) as tx:
            rows = await sessions.names(tx, after=after, limit=limit)
        return [
            ListedResource(
                values={"project": scope.project, "session_id": row["session"]},
                place=row["session"],
                title=row["session"],
                updated_at=row["updated_at"],
            )
            for row in rows
        ]

    async def stamps(
        scope: Scope, requests: Sequence[_SessionArgs]
    ) -> Sequence[sessions.StoredSession | None]:
        """Return the sessions' counters, which every turn changes; None for unknown sessions."""
        names = [request.session_id for request in requests]
        async with database.begin(scope, read_only=True) as tx:
            found = await sessions.find_all(tx, names)
        return [found.get(name) for name in names]

    return Resource(
        template="memsvc://{project}/sessions/{session_id}",
        name="session",
        title="Session",
        description="The directories of a session's memory with an abstract of each, as JSON.",
        mime_type="application/json",
        stamps=stamps,
        listing=ResourceListing(LIST_TOOL, page),
    )


def completions(database: Database) -> dict[str, Completion]:
    """Return the completion of session names."""

    async def find(scope: Scope, prefix: str, _: Mapping[str, str], limit: int) -> Sequence[str]:
        async with database.begin(scope, read_only=True) as tx:
            return [row["session"] for row in await sessions.names(tx, prefix=prefix, limit=limit)]

    return {"session_id": Completion(LIST_TOOL, find)}


def guide() -> Guide:
    """Return the prompt that explains a turn to agents and their authors."""
    return Guide(
        name="memsvc:turn-lifecycle",
        title="How a turn uses memory",
        description="What to call before and after each answer, and what to do when it fails.",
        tools=("memory_before_turn", "memory_after_turn", "memory_run_maintenance"),
        text=resources(__package__).joinpath("turn_lifecycle.md").read_text("utf-8"),
        arguments={"session_id": "the conversation", "user_id": "the person who speaks"},
    )
