"""The tools of single blocks: edit, forget, ls, inbox, connect, disconnect."""

from collections.abc import Sequence

from memsvc.core.errors import invalid
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Tool
from memsvc.store.knowledge_blocks import KnowledgeBlock
from memsvc.styles.knowledge import texts
from memsvc.styles.knowledge.block_store import BlockStore
from memsvc.styles.knowledge.edge_editor import EdgeEditor
from memsvc.styles.knowledge.knowledge_models import (
    LISTED_MAX,
    LOGGED,
    BlockListArguments,
    BlockListResult,
    ConnectArguments,
    ConnectResult,
    DisconnectArguments,
    DisconnectResult,
    EditArguments,
    EditResult,
    ForgetBlockArguments,
    ForgetBlockResult,
    InboxArguments,
    ListedBlock,
    ReplacedEdge,
)
from memsvc.styles.knowledge.memory_status import StatusReader


class BlockTools:
    """Functions of these tools."""

    def __init__(
        self, remember_blocks: BlockStore, status_reader: StatusReader, edge_editor: EdgeEditor
    ) -> None:
        self._block_store = remember_blocks
        self._status_reader = status_reader
        self._edge_editor = edge_editor

    async def edit(self, scope: Scope, args: EditArguments) -> EditResult:
        await self._block_store.edit(scope, args.block_id, args.content, args.cue)
        return EditResult(block_id=args.block_id, summary=f"Edited block {args.block_id[:8]}.")

    async def forget(self, scope: Scope, args: ForgetBlockArguments) -> ForgetBlockResult:
        short = args.block_id[:8]
        if await self._block_store.forget(scope, args.block_id):
            return ForgetBlockResult(
                block_id=args.block_id, status="forgotten", summary=f"Forgot block {short}."
            )
        return ForgetBlockResult(
            block_id=args.block_id,
            status="already_archived",
            summary=f"Block {short} was already archived.",
        )

    async def ls(self, scope: Scope, args: BlockListArguments) -> BlockListResult:
        if args.archived:
            if args.tag is not None:
                raise invalid("archived blocks have no tags: ask for them without one")
            blocks = await self._status_reader.archived(
                scope, category=args.category, limit=args.limit
            )
            return _list(blocks, "No archived blocks match.")
        blocks = await self._status_reader.listing(
            scope, tag=args.tag, category=args.category, limit=args.limit
        )
        return _list(blocks, "No active blocks match.")

    async def inbox(self, scope: Scope, args: InboxArguments) -> BlockListResult:
        return _list(
            await self._status_reader.inbox(scope, limit=args.max_count or LISTED_MAX),
            "Inbox empty.",
        )

    async def connect(self, scope: Scope, args: ConnectArguments) -> ConnectResult:
        result = await self._edge_editor.connect(
            scope,
            args.source,
            args.target,
            relation=args.relation,
            note=args.note,
            if_exists=args.if_exists,
        )
        replaced = None
        if (edge := result.replaced) is not None:
            replaced = ReplacedEdge(
                from_id=edge.low, to_id=edge.high, relation_type=edge.relation, weight=edge.weight
            )
        return ConnectResult(
            source_id=args.source,
            target_id=args.target,
            relation=result.edge.relation,
            weight=result.edge.weight,
            action=result.action,
            note=result.edge.note or None,
            displaced_edge=replaced,
            summary=texts.connected(args.source, args.target, result),
        )

    async def disconnect(self, scope: Scope, args: DisconnectArguments) -> DisconnectResult:
        outcome, edge = await self._edge_editor.disconnect(
            scope, args.source, args.target, guard_relation=args.guard_relation
        )
        return DisconnectResult(
            source_id=args.source,
            target_id=args.target,
            action=outcome,
            removed_relation=edge.relation if edge is not None else None,
            removed_weight=edge.weight if edge is not None else None,
            summary=texts.disconnected(args.source, args.target, outcome, edge),
        )


def _list(blocks: Sequence[KnowledgeBlock], nothing: str) -> BlockListResult:
    result = [
        ListedBlock(
            id=block.block_id,
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
    return BlockListResult(
        result=result, summary=texts.listed([item.id for item in result], nothing=nothing)
    )


def block_tools(
    remember_blocks: BlockStore, status_reader: StatusReader, edge_editor: EdgeEditor
) -> list[Tool]:
    """Return these tools."""
    functions = BlockTools(remember_blocks, status_reader, edge_editor)
    return [*_blocks(functions), *_edges(functions)]


def _blocks(functions: BlockTools) -> list[Tool]:
    return [
        Tool(
            name="elfmem_edit",
            title="Edit a block",
            description="Change what a block says, or the cue by which it is found. What is"
            " thought of it stays.",
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
            description="Give a block up for good: it is never recalled again, and its text is"
            " removed.",
            arguments=ForgetBlockArguments,
            result=ForgetBlockResult,
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
            description="Blocks by tag or category, the surest first; those of the inbox too; or"
            " archived ones.",
            arguments=BlockListArguments,
            result=BlockListResult,
            run=functions.ls,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=LOGGED,
        ),
        Tool(
            name="elfmem_inbox",
            title="List the inbox",
            description="Blocks that wait to be consolidated, the longest waiting first. They can"
            " be recalled already.",
            arguments=InboxArguments,
            result=BlockListResult,
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
            description="State that two blocks hang together, so that what finds one finds the"
            " other.",
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
