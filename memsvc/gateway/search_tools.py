"""The tools search and fetch, as ChatGPT's connectors expect them, over all memory of a project."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, zip_longest
from typing import Annotated, Any, Final
from urllib.parse import quote, unquote

from pydantic import Field

from memsvc.core.errors import (
    HTTP_STATUS,
    Code,
    MemsvcError,
    invalid_query,
    not_found,
    permission_denied,
)
from memsvc.core.frozen import frozen
from memsvc.core.items import text_of
from memsvc.core.json_text import JsonObject
from memsvc.core.paths import USERS_ROOT
from memsvc.core.ports import PassageSearch
from memsvc.core.scope import ALL_PROJECTS, DEFAULT_PROJECT, Caller, Permission, Scope
from memsvc.core.secrets import NOT_ASKED_FOR, asks_for_secret, has_secret_value
from memsvc.core.tool_methods import result, tool
from memsvc.core.tools import AllProjectsArguments, Tool, ToolCalls, ToolContext, UserSearch
from memsvc.gateway.dispatch import validate

SESSION: Final = "search"
"""Session that turns are recalled for: nobody speaks in it."""
LATEST: Final = 50
"""How many of the latest sessions say whose turns are searched."""
MEMORY_USERS_MAX: Final = 10
"""How many users' memories are searched, beside those of the speakers."""
SPEAKERS_MAX: Final = 5
"""How many speakers' turns are searched, and sessions of nobody known or of several: the latest."""
FOUND_MAX: Final = 20
TITLE_CHARS: Final = 80
ITEMS_MAX: Final = 200
"""Items of a turn that are read at once."""
TITLE_ITEMS: Final = 10
"""Items of a turn that are read at once for its title."""
SESSIONS_TOOL, TURNS_TOOL, RECALL_TOOL = (
    "memory_list_sessions",
    "memory_list_turns",
    "memory_before_turn",
)
BOARD_TOOL, BLOCK_TOOL = "whiteboard_get", "elfmem_show"
TOOLS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "turn": (TURNS_TOOL, RECALL_TOOL),
    "whiteboard": (BOARD_TOOL,),
    "knowledge": (BLOCK_TOOL, "elfmem_recall"),
}
"""Tools without which a caller neither finds nor reads references of a kind."""
Id = Annotated[str, Field(min_length=1, max_length=2048)]
search_tool = partial(
    tool,
    needs=Permission.READ,
    toolset="chatgpt",
    base=AllProjectsArguments,
    project="project; `*`: the key's only project, otherwise the default project",
    spans_projects=True,
)
"""Make a method a tool for connectors, which send no project."""


@result
class FoundReference:
    id: Annotated[str, "id of the result, to pass to fetch"]
    title: Annotated[str, "title of the result"]
    url: Annotated[str, "URI of the result, for citations"]


@result
class FoundReferences:
    results: Annotated[
        list[FoundReference],
        "results, alternating between kinds of memory; within each kind, best first",
    ]


@result
class FetchedText:
    id: Annotated[str, "id that was passed to fetch"]
    title: Annotated[str, "title of the entry"]
    text: Annotated[str, "full text; messages over 32 KB are cut and end in ..."]
    url: Annotated[str, "URI of the entry, for citations"]
    metadata: Annotated[dict[str, str], "kind and project of the entry"]


@frozen
class SearchTools:
    """The two tools. They call other tools with the rights of their caller.

    The tools that list sessions and turns or show knowledge are not offered to agents, so they are
    called directly, from `tools`; a key that hides them does not find their content here either.
    `passages` search whiteboards and knowledge. `users_found` returns users who have memories about
    a query."""

    tools: Mapping[str, Tool]
    passages: Mapping[str, PassageSearch]
    users_found: UserSearch | None = None

    @search_tool("search", "Search memory")
    async def search(
        self,
        scope: Scope,
        caller: Caller,
        calls: ToolCalls,
        query: Annotated[str, Field(max_length=2000), "words to search for, or a question"],
    ) -> FoundReferences:
        """Find past turns, files, documents, memories, whiteboards and knowledge."""
        if not query.strip():
            raise invalid_query("query must not be empty")
        scope = _one_project(scope, caller)
        args = {"project": scope.project, "query": query, "limit": FOUND_MAX}
        files = await _call(calls, "file_search", args)
        documents = await _call(calls, "search_documents", args)
        speakers = await self._speakers(scope, caller)
        turns = [
            await self._turns(scope, calls, query, *each)
            for each in speakers
            if self._may_use(caller, TURNS_TOOL)
        ]
        own, users = caller.own.get("user_id"), [user for _, user in speakers if user]
        if own:
            users = [own]
        elif self.users_found is not None:
            users = [*await self.users_found(scope, query, MEMORY_USERS_MAX), *users]
        memories = [
            await _call(calls, "memories_search", args | {"user_id": user})
            for user in dict.fromkeys(users)
        ]
        kinds: list[Iterable[tuple[str, str]]] = [
            filter(None, chain.from_iterable(zip_longest(*turns))),
            (
                (f"file:{chunk['file_path']}", chunk["chunk_content"])
                for chunk in files.get("chunks", ())
            ),
            ((f"document:{each['id']}", each["text"]) for each in documents.get("passages", ())),
            (
                (f"memory:{quote(each['user_id'], safe='')}/{each['id']}", each["memory"])
                for found in memories
                for each in found.get("results", ())
            ),
            *await self._passages(scope, caller, query),
        ]
        best = dict(pair for rank in zip_longest(*kinds) for pair in reversed(rank) if pair)
        results: list[FoundReference] = []
        for name, text in list(best.items())[:FOUND_MAX]:
            kind, _, rest = name.partition(":")
            told = text if kind != "turn" else await self._turn(scope, rest, TITLE_ITEMS)
            if told:  # nothing is told of a turn that was forgotten meanwhile
                title = _title(name, told)
                if kind == "turn" and has_secret_value(title) and not asks_for_secret(query):
                    title = _title(name, "")
                results.append(FoundReference(name, title, _url(scope, name)))
        return FoundReferences(results)

    async def _passages(
        self, scope: Scope, caller: Caller, query: str
    ) -> list[list[tuple[str, str]]]:
        """Return references to whiteboards and to knowledge about the query, with their passages.

        The whiteboards are those of the caller's user, or of all users if it has none."""
        user = caller.own.get("user_id")
        kinds = [
            kind
            for kind, tools in TOOLS_OF.items()
            if kind in self.passages and self._may_use(caller, *tools)
        ]
        searches = (self.passages[kind](scope, query, FOUND_MAX, user=user) for kind in kinds)
        return [
            [
                (f"{kind}:{one.path.removeprefix(f'{USERS_ROOT}/').removesuffix('.md')}", one.text)
                for one in found
            ]
            for kind, found in zip(kinds, await asyncio.gather(*searches), strict=True)
        ]

    @search_tool("fetch", "Fetch from memory", logs=("id",))
    async def fetch(
        self,
        scope: Scope,
        caller: Caller,
        calls: ToolCalls,
        id_: Annotated[Id, Field(alias="id"), "result id"],
    ) -> FetchedText:
        """Read a result of search."""
        scope = _one_project(scope, caller)
        kind, _, name = id_.partition(":")
        try:
            text = await self._text(scope, caller, calls, kind, name)
            if not text and kind in TOOLS_OF:
                raise not_found("the turn or whiteboard does not exist")
        except MemsvcError as error:
            if HTTP_STATUS[error.code] not in (400, 404):
                raise
            # the same for what is not there, is another's, or could never be
            raise not_found("nothing in memory has this id") from None
        metadata = {"kind": kind, "project": scope.project}
        return FetchedText(id_, _title(id_, text), text, _url(scope, id_), metadata)

    async def _text(
        self, scope: Scope, caller: Caller, calls: ToolCalls, kind: str, name: str
    ) -> str:
        """Return the text of a reference; NOT_FOUND for one to nothing that the caller sees."""
        if not self._may_use(caller, *TOOLS_OF.get(kind, ())):
            raise not_found("the caller has no tool that reads this kind")
        first, _, second = name.partition("/")
        match kind:
            case "file":
                reader, args, field = "file_read", {"path": name}, "content"
            case "document":
                reader, args, field = "read_document", {"id": name}, "text"
            case "memory":
                args = {"user_id": unquote(first), "memory_id": second}
                reader, field = "memories_get", "memory"
            case "whiteboard":
                args = {"user_id": unquote(first), "conversation_id": unquote(second)}
                reader, field = BOARD_TOOL, "text"
            case "knowledge":
                return str((await self._listed(BLOCK_TOOL, scope, {"block_id": name}))["content"])
            case "turn":
                return await self._turn(scope, name, ITEMS_MAX)
            case _:
                raise not_found("the id does not begin with a known kind")
        args["project"] = scope.project
        return str((await _call(calls, reader, args, found=True))[field])

    def _may_use(self, caller: Caller, *names: str) -> bool:
        return self.tools.keys() >= {*names} and caller.hidden_tools.isdisjoint(names)

    async def _speakers(self, scope: Scope, caller: Caller) -> list[tuple[str, str]]:
        """Return the session to recall for and the person, of those who spoke last.

        Sessions of nobody known and of several users follow: only what recalls for them finds their
        turns. A key of one user is given those in which this user was the last to speak."""
        if not self._may_use(caller, SESSIONS_TOOL):
            return []
        args = {"limit": LATEST, "user_id": caller.own.get("user_id", "")}
        listed = await self._listed(SESSIONS_TOOL, scope, args)
        named = [(SESSION, each["user_id"]) for each in listed["sessions"] if each["user_id"]]
        apart = [
            (each["session_id"], args["user_id"])
            for each in listed["sessions"]
            if each["shared"] or not each["user_id"]
        ]
        return [*dict.fromkeys(named)][:SPEAKERS_MAX] + apart[:SPEAKERS_MAX]

    async def _turns(
        self, scope: Scope, calls: ToolCalls, query: str, session: str, user: str
    ) -> list[tuple[str, str]]:
        """Return references to turns of this person or session about the query, each turn once.

        If none is relevant enough for a prompt, the nearest turns are returned, provided that one
        of them contains a word of the query."""
        args = {
            "project": scope.project,
            "session_id": session,
            "user_id": user,
            "current_input_text": query,
            "explain": True,
            "sources": ["turns"],
        }
        found = await _call(calls, RECALL_TOOL, args)
        explanation = found.get("explanation") or {}
        confidence = explanation.get("confidence") or {"relevance": 0, "total": 0, "floor": 1}
        is_relevant = confidence["total"] >= confidence["floor"]
        nearest = confidence["relevance"] > 0 and not is_relevant
        turns: dict[str, str] = {}
        for each in explanation.get("candidates", ()):
            if (
                each["kind"] == "turn"
                and each.get("reason") != NOT_ASKED_FOR
                and (each["shown"] or nearest or (is_relevant and "session" not in each))
            ):
                turn = each["ref"].rsplit("-", 2)[0]
                place = quote(each.get("session", session), safe="")
                turns[f"turn:{place}/{quote(turn, safe='')}"] = ""
        return list(turns.items())

    async def _turn(self, scope: Scope, name: str, limit: int) -> str:
        """Return the messages of a turn, in order; "" if it does not exist.

        Reads up to `limit` items at a time."""
        session, _, turn = name.partition("/")
        session, turn = unquote(session), unquote(turn)
        items: list[JsonObject] = []
        args: JsonObject = {"session_id": session, "turn_id": turn, "limit": limit}
        while True:
            page = await self._listed(TURNS_TOOL, scope, args)
            items += [item for item in page["items"] if item["turn_id"] == turn]
            last = page["items"][-1]["turn_id"] if page["items"] else ""
            if last != turn or not page["next_cursor"]:
                break
            args["cursor"] = page["next_cursor"]
        return "\n".join(f"{item['role']}: {_item_text(item)}" for item in reversed(items))

    async def _listed(self, name: str, scope: Scope, args: JsonObject) -> JsonObject:
        """Return what a list of sessions or turns has in a project that the caller may touch."""
        listing = self.tools[name]
        checked = validate(listing, {"project": scope.project} | args)
        return listing.body(await listing.run(ToolContext(scope), checked))


def _one_project(scope: Scope, caller: Caller) -> Scope:
    """Return the scope of one project: the named one, the caller's own, or the default."""
    if scope.project != ALL_PROJECTS:
        return scope
    project = caller.own.get("project", DEFAULT_PROJECT)
    if not caller.can_access(project):
        raise permission_denied(
            "this key cannot use the default project",
            recovery="pass one of the projects of this key",
        )
    return replace(scope, project=project)


def _item_text(item: Mapping[str, Any]) -> str:
    """Return an item's text: where the list cut it, that of the stored item, if it is there."""
    if not item["cut"]:
        return str(item["text"])
    return text_of(item["item"]) if item["item"] else f"{item['text']}..."


async def _call(
    calls: ToolCalls, name: str, args: JsonObject, *, found: bool = False
) -> JsonObject:
    """Return the result of another tool.

    Nothing where the caller has no such tool, or unless it is to be `found`, where nothing is.
    """
    outcome = await calls.call(name, args)
    if outcome.error is None:
        return dict(outcome.body)
    if outcome.error.code is Code.NOT_FOUND and not found:
        return {}
    raise outcome.error


def _title(name: str, text: str) -> str:
    kind, _, rest = name.partition(":")
    first = " ".join(text.split())[:TITLE_CHARS]
    return f"{kind} {unquote(rest)}{first and f': {first}'}"


def _url(scope: Scope, name: str) -> str:
    kind, _, rest = name.partition(":")
    match kind:
        case "file":
            return f"memsvc://{scope.project}/files{quote(rest)}"
        case "turn":
            return f"memsvc://{scope.project}/sessions/{rest.partition('/')[0]}"
        case "document":
            return f"memsvc://{scope.project}/documents/{quote(rest, safe='')}"
        case _:
            return f"memsvc://{scope.project}/{kind}/{quote(rest, safe='/%')}"
