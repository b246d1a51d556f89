"""The tool that shows one block to people: elfmem_show."""

from typing import Final, Literal

from pydantic import Field

from memsvc.core.decay import DecayTier
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Arguments, Result, Tool
from memsvc.store.knowledge_blocks import KnowledgeBlock
from memsvc.styles.knowledge.block_details import BlockDetails, BlockDetailsReader
from memsvc.styles.knowledge.knowledge_models import LOGGED, BlockId

PREVIEW_CHARS: Final = 200


class ShowArguments(Arguments):
    block_id: BlockId = Field(description="the block, archived or not")


class OtherBlock(Result):
    id: str = Field(description="the block")
    content: str = Field(description="how its text begins; empty when it was forgotten")
    status: str = Field(description="active, inbox, or archived")


class BlockEdge(Result):
    block: OtherBlock = Field(description="the block at the other end")
    relation: str = Field(description="how the two hang together")
    weight: float = Field(description="how strongly, 0 to 1")
    origin: str = Field(description="who found it: similarity, outcome or agent")
    reinforcements: int = Field(description="how often both were shown together")
    note: str = Field(description="why they hang together, as it was stated")


class BlockConflict(Result):
    block: OtherBlock = Field(
        description="the block that cannot be true beside this one, or says nearly the same"
    )
    kind: Literal["contradiction", "near_duplicate"] = Field(description="which of both")
    score: float = Field(description="how surely, 0 to 1")
    found_at: str = Field(description="when that was found")


class OutcomeDetails(Result):
    signal: float = Field(description="how it went, 0 (it failed) to 1 (it succeeded)")
    weight: float = Field(description="how much that counts")
    source: str = Field(description="where the signal came from")
    before: float = Field(description="the confidence before it")
    after: float = Field(description="the confidence after it")
    told_at: str = Field(description="when it was told")


class ShowResult(Result):
    id: str = Field(description="the block")
    content: str = Field(description="its text; empty when it was forgotten")
    cue: str = Field(description="the situation in which it is to be recalled")
    category: str = Field(description="its category")
    tags: list[str] = Field(description="its tags")
    tier: DecayTier = Field(description="how lasting it is")
    status: Literal["inbox", "active", "archived"] = Field(
        description="whether it is recalled: archived is not"
    )
    archive_reason: Literal["decayed", "superseded", "forgotten"] | None = Field(
        description="why it was archived"
    )
    superseded_by: OtherBlock | None = Field(description="the block that stands for it now")
    supersedes: list[OtherBlock] = Field(description="the blocks for which it stands")
    created_at: str = Field(description="when it was remembered")
    scored_by: str = Field(description="who judged it: rules, or a model; empty when nobody has")
    alignment: float | None = Field(
        description="how well it fits who the agent is, 0 to 1; null when nobody judged"
    )
    confidence: float = Field(description="how far it can be relied on: alpha in alpha + beta")
    alpha: float = Field(description="what speaks for it")
    beta: float = Field(description="what speaks against it")
    evidence: float = Field(description="the weight of all outcomes that were told of it")
    outcomes: list[OutcomeDetails] = Field(
        description="how it went when it was used, the latest first, 50 at the most"
    )
    reinforcement_count: int = Field(description="how often it was used")
    decay_per_h: float = Field(
        description="lambda: what is left after h active hours unused is exp(-lambda h)"
    )
    reinforced_h: float = Field(description="when it was used last, on the clock of active hours")
    now_h: float = Field(description="that clock now")
    left: float = Field(description="what has not faded of it now, 0 to 1")
    faded_h: float = Field(
        description="when it will have faded so far that it may be archived, on the same clock"
    )
    degree: float = Field(description="the weights of all its edges together")
    edges: list[BlockEdge] = Field(
        description="what it hangs together with, the strongest first, 50 at the most"
    )
    conflicts: list[BlockConflict] = Field(
        description="what it does not go together with, the surest first"
    )


def show_tool(block_details: BlockDetailsReader) -> Tool:
    """Return this tool."""

    async def show(scope: Scope, args: ShowArguments) -> ShowResult:
        return _result(await block_details.show(scope, args.block_id))

    return Tool(
        name="elfmem_show",
        title="Show a block",
        description="One block with all that is thought of it: its evidence, how it fades, its"
        " edges, what it contradicts, and what it stands for. Showing it is no use of it:"
        " nothing is reinforced.",
        arguments=ShowArguments,
        result=ShowResult,
        run=show,
        permission=Permission.READ,
        read_only=True,
        idempotent=True,
        logged=LOGGED,
        is_admin=True,
    )


def _result(details: BlockDetails) -> ShowResult:
    block = details.block
    return ShowResult(
        id=block.block_id,
        content=block.text,
        cue=block.keywords,
        category=block.category,
        tags=list(block.tags),
        tier=block.tier,
        status=block.status,
        archive_reason=block.archive_reason,
        superseded_by=_other(details, block.superseded_by) if block.superseded_by else None,
        supersedes=[_other(details, item) for item in details.superseded],
        created_at=block.created_at.isoformat(),
        scored_by=block.scored_by,
        alignment=block.alignment,
        confidence=block.confidence,
        alpha=block.alpha,
        beta=block.beta,
        evidence=block.evidence,
        outcomes=_outcomes(details),
        reinforcement_count=block.reinforcements,
        decay_per_h=block.decay_per_h,
        reinforced_h=block.reinforced_h,
        now_h=details.now_h,
        left=details.left,
        faded_h=details.archive_h,
        degree=block.degree,
        edges=_edges(details),
        conflicts=[
            BlockConflict(
                block=_other(details, item.second),
                kind=item.kind,
                score=item.score,
                found_at=found_at.isoformat(),
            )
            for item, found_at in details.conflicts
        ],
    )


def _outcomes(details: BlockDetails) -> list[OutcomeDetails]:
    return [
        OutcomeDetails(
            signal=item.signal,
            weight=item.weight,
            source=item.source,
            before=item.before,
            after=item.after,
            told_at=item.told_at.isoformat(),
        )
        for item in details.outcomes
    ]


def _edges(details: BlockDetails) -> list[BlockEdge]:
    return [
        BlockEdge(
            block=_other(details, edge.high if edge.low == details.block.block_id else edge.low),
            relation=edge.relation,
            weight=edge.weight,
            origin=edge.origin,
            reinforcements=edge.reinforcements,
            note=edge.note,
        )
        for edge in details.edges
    ]


def _other(details: BlockDetails, block_id: str) -> OtherBlock:
    other: KnowledgeBlock | None = details.others.get(block_id)
    if other is None:
        return OtherBlock(id=block_id, content="", status="archived")
    return OtherBlock(id=block_id, content=other.text[:PREVIEW_CHARS], status=other.status)
