"""The tools of single blocks: edit, forget, ls, inbox, connect, disconnect."""

from collections.abc import Sequence

from memsvc.core.errors import invalid
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Tool
from memsvc.store.notions import Notion
from memsvc.styles.knowledge import texts
from memsvc.styles.knowledge.contract import (
    LISTED_MAX,
    LOGGED,
    ConnectArguments,
    ConnectResult,
    DisconnectArguments,
    DisconnectResult,
    DisplacedEdge,
    EditArguments,
    EditResult,
    ForgetArguments,
    ForgetResult,
    InboxArguments,
    ListArguments,
    ListedBlock,
    ListResult,
)
from memsvc.styles.knowledge.linking import Linking
from memsvc.styles.knowledge.remembering import Remembering
from memsvc.styles.knowledge.standing import Standings


class BlockTools:
    """Functions of these tools."""

    def __init__(self, remembering: Remembering, standings: Standings, linking: Linking) -> None:
        self._remembering = remembering
        self._standings = standings
        self._linking = linking

    async def edit(self, scope: Scope, asked: EditArguments) -> EditResult:
        await self._remembering.edit(scope, asked.block_id, asked.content, asked.cue)
        return EditResult(block_id=asked.block_id, summary=f"Edited block {asked.block_id[:8]}.")

    async def forget(self, scope: Scope, asked: ForgetArguments) -> ForgetResult:
        short = asked.block_id[:8]
        if await self._remembering.forget(scope, asked.block_id):
            return ForgetResult(block_id=asked.block_id, status="forgotten", summary=f"Forgot block {short}.")
        return ForgetResult(
            block_id=asked.block_id, status="already_archived", summary=f"Block {short} was already archived."
        )

    async def ls(self, scope: Scope, asked: ListArguments) -> ListResult:
        if asked.archived:
            if asked.tag is not None:
                raise invalid("archived blocks have no tags: ask for them without one")
            blocks = await self._standings.archived(scope, category=asked.category, most=asked.limit)
            return _list(blocks, "No archived blocks match.")
        blocks = await self._standings.listing(scope, tag=asked.tag, category=asked.category, most=asked.limit)
        return _list(blocks, "No active blocks match.")

    async def inbox(self, scope: Scope, asked: InboxArguments) -> ListResult:
        return _list(await self._standings.inbox(scope, most=asked.max_count or LISTED_MAX), "Inbox empty.")

    async def connect(self, scope: Scope, asked: ConnectArguments) -> ConnectResult:
        done = await self._linking.connect(
            scope, asked.source, asked.target, relation=asked.relation, note=asked.note, if_exists=asked.if_exists
        )
        displaced = None
        if (edge := done.displaced) is not None:
            displaced = DisplacedEdge(
                from_id=edge.low, to_id=edge.high, relation_type=edge.relation, weight=edge.weight
            )
        return ConnectResult(
            source_id=asked.source,
            target_id=asked.target,
            relation=done.edge.relation,
            weight=done.edge.weight,
            action=done.action,
            note=done.edge.note or None,
            displaced_edge=displaced,
            summary=texts.connected(asked.source, asked.target, done),
        )

    async def disconnect(self, scope: Scope, asked: DisconnectArguments) -> DisconnectResult:
        action, edge = await self._linking.disconnect(
            scope, asked.source, asked.target, guard_relation=asked.guard_relation
        )
        return DisconnectResult(
            source_id=asked.source,
            target_id=asked.target,
            action=action,
            removed_relation=edge.relation if edge is not None else None,
            removed_weight=edge.weight if edge is not None else None,
            summary=texts.disconnected(asked.source, asked.target, action, edge),
        )


def _list(blocks: Sequence[Notion], nothing: str) -> ListResult:
    result = [
        ListedBlock(
            id=block.notion,
            content=block.text,
            category=block.category,
            tags=list(block.tags),
            created_at=block.created_at.isoformat(),
            reinforcement_count=block.reinforcements,
            confidence=block.confidence,
            status=block.status,
            archive_reason=block.archive_reason,
        )
        for block in blocks
    ]
    return ListResult(result=result, summary=texts.listed([one.id for one in result], nothing=nothing))


def block_tools(remembering: Remembering, standings: Standings, linking: Linking) -> list[Tool]:
    """Return these tools."""
    functions = BlockTools(remembering, standings, linking)
    return [*_blocks(functions), *_edges(functions)]


def _blocks(functions: BlockTools) -> list[Tool]:
    return [
        Tool(
            name="elfmem_edit",
            title="Edit a block",
            description="Change what a block says, or the cue by which it is found. What is thought of it stays.",
            arguments=EditArguments,
            result=EditResult,
            run=functions.edit,
            permission=Permission.WRITE,
            read_only=False,
            idempotent=True,
            logged=LOGGED,
        ),
        Tool(
            name="elfmem_forget",
            title="Forget a block",
            description="Give a block up for good: it is never recalled again, and its text is removed.",
            arguments=ForgetArguments,
            result=ForgetResult,
            run=functions.forget,
            permission=Permission.WRITE,
            read_only=False,
            over_quota=True,
            idempotent=True,
            destructive=True,
            logged=LOGGED,
        ),
        Tool(
            name="elfmem_ls",
            title="List blocks",
            description="Blocks by tag or category, the surest first; those of the inbox too; or archived ones.",
            arguments=ListArguments,
            result=ListResult,
            run=functions.ls,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=LOGGED,
        ),
        Tool(
            name="elfmem_inbox",
            title="List the inbox",
            description="Blocks that wait to be consolidated, the longest waiting first. They can be recalled already.",
            arguments=InboxArguments,
            result=ListResult,
            run=functions.inbox,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=LOGGED,
        ),
    ]


def _edges(functions: BlockTools) -> list[Tool]:
    return [
        Tool(
            name="elfmem_connect",
            title="Connect two blocks",
            description="State that two blocks hang together, so that what finds one finds the other.",
            arguments=ConnectArguments,
            result=ConnectResult,
            run=functions.connect,
            permission=Permission.WRITE,
            read_only=False,
            idempotent=False,
            logged=LOGGED,
        ),
        Tool(
            name="elfmem_disconnect",
            title="Disconnect two blocks",
            description="Remove the edge between two blocks.",
            arguments=DisconnectArguments,
            result=DisconnectResult,
            run=functions.disconnect,
            permission=Permission.WRITE,
            read_only=False,
            over_quota=True,
            idempotent=True,
            destructive=True,
            logged=LOGGED,
        ),
    ]
