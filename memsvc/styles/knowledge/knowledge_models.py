"""Types of what the knowledge tools take and return."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from memsvc.core.decay import DecayTier
from memsvc.core.errors import invalid
from memsvc.core.tool_methods import result, tool
from memsvc.store.knowledge_blocks import BlockOutcome

CONTENT_CHARS_MAX: Final = 20_000
KEYWORDS_CHARS_MAX: Final = 1_000
NAME_CHARS_MAX: Final = 128
TAGS_MAX: Final = 32
IDS_MAX: Final = 50
LISTED_MAX: Final = 1_000
TOP_K_MAX: Final = 50
knowledge_tool = partial(
    tool,
    toolset="knowledge",
    logs=("block_id", "target", "frame", "method", "if_exists", "relation"),
)


def _plain(value: str) -> str:
    """Return the text without what the database cannot store."""
    return value.replace("\x00", " ")


def _not_blank(value: str) -> str:
    if not value.strip():
        raise invalid("content must not be blank")
    return _plain(value)


def _name(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise invalid("a tag or category is printable and not blank")
    return value.strip()


Name = Annotated[str, Field(max_length=NAME_CHARS_MAX), AfterValidator(_name)]
BlockId = Annotated[str, Field(max_length=NAME_CHARS_MAX), AfterValidator(_plain)]
Content = Annotated[str, Field(max_length=CONTENT_CHARS_MAX), AfterValidator(_not_blank)]
Keywords = Annotated[str, Field(max_length=KEYWORDS_CHARS_MAX), AfterValidator(_plain)]
Words = Annotated[str, Field(max_length=NAME_CHARS_MAX), AfterValidator(_plain)]

CUE: Final = "when to recall it, in the words that will be used then"
Cue = Annotated[Keywords, CUE]
Action = Literal["created", "reinforced", "updated", "skipped"]
Skip = Literal["constitutional", "pending_inbox", "archived", "unmatched"]
Reason = Literal["top_k", "token_budget", "contradiction"]
StoreStatus = Literal["created", "duplicate_rejected"]


@result
class KnowledgeResult:
    summary: str
    """what the call came to, in a line"""


@result
class StoreResult(KnowledgeResult):
    block_id: str
    """the block that holds the text"""
    status: StoreStatus
    """whether it was new"""
    pending_consolidation: bool
    """whether the block still waits in the inbox"""
    visible: bool
    """whether it can be recalled: at once, consolidated or not"""
    should_dream: bool
    """whether the inbox is full; it is then consolidated in the background too"""


@result
class RecalledBlock:
    id: str
    """the block, as elfmem_outcome takes it"""
    content: str
    """its text"""
    score: float
    """what it is worth to this recall, to 3 places"""
    tags: list[str]
    """its tags"""
    similarity: float
    """how well it fits the question, 0 to 1"""
    confidence: float
    """how far it can be relied on, 0 to 1"""
    recency: float
    """how much of it has not faded, 0 to 1"""
    centrality: float
    """how well it is connected, 0 to 1"""
    reinforcement: float
    """how much it was used, 0 to 1"""
    was_expanded: bool
    """whether an edge led to it, and not the question"""
    status: str
    """active, or inbox while it waits to be consolidated"""


@result
class DroppedBlock:
    id: str
    """the block"""
    content: str
    """its text"""
    tags: list[str]
    """its tags"""
    reason: Reason
    """why it is not shown"""


@result
class KnowledgeRecall(KnowledgeResult):
    text: str
    """the blocks rendered for a prompt; empty when there are none"""
    frame_name: str
    """the frame"""
    cached: bool
    """whether nothing has changed since the same recall, which is repeated"""
    blocks: list[RecalledBlock]
    """what the text shows, in its order"""
    dropped: list[DroppedBlock]
    """what was found and is not shown"""
    budget_used: int
    """tokens of the text, about"""
    budget_total: int
    """tokens that the frame may have, about"""
    excluded_by_filter: int
    """blocks that have no place in this frame"""


@result
class TokenUsage:
    llm_input_tokens: int
    """tokens that the model was given, as this server counts"""
    llm_output_tokens: int
    """tokens that it answered"""
    embedding_tokens: int
    """tokens that were embedded"""
    llm_calls: int
    """times that the model was asked"""
    embedding_calls: int
    """times that the embedder was asked"""


@result
class MemoryStatus(KnowledgeResult):
    session_active: bool
    """whether somebody has worked with this memory lately"""
    session_hours: float | None
    """how long the session lasts; null outside of one"""
    inbox_count: int
    """blocks that wait to be consolidated; they can be recalled"""
    inbox_threshold: int
    """blocks in the inbox from which they are consolidated"""
    active_count: int
    """blocks that were consolidated"""
    archived_count: int
    """blocks that are recalled no more"""
    total_active_hours: float
    """the clock by which blocks fade: it runs within sessions"""
    last_consolidated: str
    """when a block was consolidated last, or never"""
    health: str
    """good, or attention"""
    suggestion: str
    """what to do"""
    session_tokens: TokenUsage
    """what models were given and gave in this session"""
    lifetime_tokens: TokenUsage
    """the same ever since"""


@result
class IgnoredBlock:
    id: str
    """the block that learnt nothing"""
    reason: Skip
    """why"""


@result
class OutcomeReport(KnowledgeResult):
    blocks_updated: int
    """blocks that learnt"""
    mean_confidence_delta: float
    """how much surer they are on average"""
    edges_reinforced: int
    """edges between them that were there"""
    blocks_penalized: int
    """blocks that fade faster now"""
    outcome_edges_created: int
    """edges between them that were made"""
    skipped: Sequence[IgnoredBlock]
    """blocks that learnt nothing"""


@result
class CurateReport(KnowledgeResult):
    archived: int
    """blocks that had faded"""
    edges_pruned: int
    """edges that were too weak"""
    edges_decayed: int
    """edges that had become so by time"""
    reinforced: int
    """the strongest blocks, which stay so"""
    constitutional_reinforced: int
    """constitutional blocks, which stay so"""
    total_edges_after: int
    """edges that are left"""


@result
class GuideText:
    text: str
    """the documentation"""


@result
class BlockEdit(KnowledgeResult):
    block_id: str
    """the block"""


@result
class BlockRemoval(KnowledgeResult):
    block_id: str
    """the block"""
    status: Literal["forgotten", "already_archived"]
    """what became of it"""


@result
class ListedBlock:
    id: str
    """the block"""
    content: str
    """its text"""
    category: str
    """its category"""
    tags: list[str]
    """its tags"""
    created_at: str
    """when it was remembered"""
    reinforcement_count: int
    """how often it was used"""
    confidence: float
    """how far it can be relied on, 0 to 1"""
    status: str
    """active, inbox, or archived"""
    archive_reason: Annotated[str | None, Field(exclude_if=lambda value: value is None)] = None
    """why it was archived"""


@result
class BlockList(KnowledgeResult):
    result: list[ListedBlock]
    """the blocks"""


@result
class DreamHealth:
    edge_creation_rate: float
    """edges for each block that was promoted"""
    promotion_rate: float
    """share of blocks that were promoted"""
    deduplication_rate: float
    """share of blocks that say what another one says"""


@result
class DreamResult(KnowledgeResult):
    _: KW_ONLY
    status: Literal["done", "idle", "out_of_time"]
    """idle when nothing waited; out_of_time when models took too long for all"""
    message: Annotated[str | None, Field(exclude_if=lambda value: value is None)] = None
    """that nothing waited"""
    processed: int
    """blocks that were consolidated"""
    promoted: int
    """those of them that are active now"""
    deduplicated: int
    """those that say what an older one says, and were archived"""
    edges_created: int
    """edges to other blocks"""
    contradictions: int
    """pairs that cannot both be true; one of each is shown"""
    near_duplicates: int
    """pairs that say nearly the same; one of each is shown"""
    scored_by_rules: int
    """blocks that no model has judged"""
    health: DreamHealth | None
    """how it went; null when nothing waited"""
    inbox_remaining: int
    """blocks that still wait"""
    curated: bool
    """whether a curation was due and done"""


@result
class ReplacedEdge:
    from_id: str
    """one end"""
    to_id: str
    """the other end"""
    relation_type: str
    """what it was"""
    weight: float
    """how strong it was"""


@result
class ConnectionResult(KnowledgeResult):
    source_id: str
    """a block"""
    target_id: str
    """another block"""
    relation: str
    """how they hang together"""
    weight: float
    """how strongly, 0 to 1"""
    action: Action
    """what was done"""
    note: str | None
    """why they hang together"""
    displaced_edge: ReplacedEdge | None
    """the edge that had to make room"""


@result
class Disconnection(KnowledgeResult):
    source_id: str
    """a block"""
    target_id: str
    """another block"""
    action: Literal["removed", "not_found", "guarded"]
    """what was done"""
    removed_relation: str | None
    """what the edge was"""
    removed_weight: float | None
    """how strong it was"""


@result
class OtherBlock:
    id: str
    """the block"""
    content: str
    """how its text begins; empty when it was forgotten"""
    status: str
    """active, inbox, or archived"""


@result
class BlockEdge:
    block: OtherBlock
    """the block at the other end"""
    relation: str
    """how the two hang together"""
    weight: float
    """how strongly, 0 to 1"""
    origin: str
    """who found it: similarity, outcome or agent"""
    reinforcements: int
    """how often both were shown together"""
    note: str
    """why they hang together, as it was stated"""


@result
class BlockConflict:
    block: OtherBlock
    """the block that cannot be true beside this one, or says nearly the same"""
    kind: Literal["contradiction", "near_duplicate"]
    """which of both"""
    score: float
    """how surely, 0 to 1"""
    found_at: str
    """when that was found"""


@result
class BlockDetails:
    id: str
    """the block"""
    content: str
    """its text; empty when it was forgotten"""
    cue: str
    """the situation in which it is to be recalled"""
    category: str
    """its category"""
    tags: list[str]
    """its tags"""
    tier: DecayTier
    """how lasting it is"""
    status: Literal["inbox", "active", "archived"]
    """whether it is recalled: archived is not"""
    archive_reason: Literal["decayed", "superseded", "forgotten"] | None
    """why it was archived"""
    superseded_by: OtherBlock | None
    """the block that stands for it now"""
    supersedes: list[OtherBlock]
    """the blocks for which it stands"""
    created_at: str
    """when it was remembered"""
    scored_by: str
    """who judged it: rules, or a model; empty when nobody has"""
    alignment: float | None
    """how well it fits who the agent is, 0 to 1; null when nobody judged"""
    confidence: float
    """how far it can be relied on: alpha in alpha + beta"""
    alpha: float
    """what speaks for it"""
    beta: float
    """what speaks against it"""
    evidence: float
    """the weight of all outcomes that were told of it"""
    outcomes: list[BlockOutcome]
    """how it went when it was used, the latest first, 50 at the most"""
    reinforcement_count: int
    """how often it was used"""
    decay_per_h: float
    """lambda: what is left after h active hours unused is exp(-lambda h)"""
    reinforced_h: float
    """when it was used last, on the clock of active hours"""
    now_h: float
    """that clock now"""
    left: float
    """what has not faded of it now, 0 to 1"""
    faded_h: float
    """when it will have faded so far that it may be archived, on the same clock"""
    degree: float
    """the weights of all its edges together"""
    edges: list[BlockEdge]
    """what it hangs together with, the strongest first, 50 at the most"""
    conflicts: list[BlockConflict]
    """what it does not go together with, the surest first"""
