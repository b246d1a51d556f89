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
        raise invalid("a tag or category must be printable and not blank")
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
    summary: Annotated[str, "the result in one line"]


@result
class StoreResult(KnowledgeResult):
    block_id: Annotated[str, "block that contains the text"]
    status: Annotated[StoreStatus, "whether it was new"]
    pending_consolidation: Annotated[bool, "whether the block is still in the inbox"]
    visible: Annotated[bool, "whether it can be recalled, which is always possible at once"]
    should_dream: Annotated[
        bool, "whether the inbox is full; it is then also consolidated in the background"
    ]


@result
class RecalledBlock:
    id: Annotated[str, "id of the block, for elfmem_outcome"]
    content: Annotated[str, "its text"]
    score: Annotated[float, "total score in this recall, rounded to 3 places"]
    tags: Annotated[list[str], "its tags"]
    similarity: Annotated[float, "relevance to the question, 0 to 1"]
    confidence: Annotated[float, "confidence, 0 to 1"]
    recency: Annotated[float, "recency: the part that has not faded, 0 to 1"]
    centrality: Annotated[float, "how well it is connected, 0 to 1"]
    reinforcement: Annotated[float, "how often it was used, 0 to 1"]
    was_expanded: Annotated[bool, "whether it was found through an edge, not by the question"]
    status: Annotated[str, "active, or inbox while it waits to be consolidated"]


@result
class DroppedBlock:
    id: Annotated[str, "the block"]
    content: Annotated[str, "its text"]
    tags: Annotated[list[str], "its tags"]
    reason: Annotated[Reason, "reason why it is not shown"]


@result
class KnowledgeRecall(KnowledgeResult):
    text: Annotated[str, "the blocks rendered for a prompt; empty if there are none"]
    frame_name: Annotated[str, "the frame"]
    cached: Annotated[
        bool, "whether this repeats an identical recall, because nothing has changed since"
    ]
    blocks: Annotated[list[RecalledBlock], "blocks in the text, in its order"]
    dropped: Annotated[list[DroppedBlock], "blocks that were found but are not shown"]
    budget_used: Annotated[int, "approximate tokens of the text"]
    budget_total: Annotated[int, "approximate token limit of the frame"]
    excluded_by_filter: Annotated[int, "blocks excluded by the tags of this frame"]


@result
class TokenUsage:
    llm_input_tokens: Annotated[int, "tokens sent to the model, as counted by this server"]
    llm_output_tokens: Annotated[int, "tokens returned by the model"]
    embedding_tokens: Annotated[int, "tokens that were embedded"]
    llm_calls: Annotated[int, "model calls"]
    embedding_calls: Annotated[int, "embedder calls"]


@result
class MemoryStatus(KnowledgeResult):
    session_active: Annotated[bool, "whether this memory was used recently"]
    session_hours: Annotated[float | None, "duration of the session; null outside of a session"]
    inbox_count: Annotated[int, "blocks waiting to be consolidated; they can already be recalled"]
    inbox_threshold: Annotated[int, "number of blocks in the inbox at which consolidation starts"]
    active_count: Annotated[int, "consolidated blocks"]
    archived_count: Annotated[int, "archived blocks, which are not recalled"]
    total_active_hours: Annotated[
        float, "clock by which blocks fade, in hours; it only runs during sessions"
    ]
    last_consolidated: Annotated[str, "time of the last consolidation, or never"]
    health: Annotated[str, "good, or attention"]
    suggestion: Annotated[str, "recommended next action"]
    session_tokens: Annotated[TokenUsage, "token usage of this session"]
    lifetime_tokens: Annotated[TokenUsage, "token usage overall"]


@result
class IgnoredBlock:
    id: Annotated[str, "the skipped block"]
    reason: Annotated[Skip, "reason"]


@result
class OutcomeReport(KnowledgeResult):
    blocks_updated: Annotated[int, "updated blocks"]
    mean_confidence_delta: Annotated[float, "average change of their confidence"]
    edges_reinforced: Annotated[int, "edges between them that were reinforced"]
    blocks_penalized: Annotated[int, "blocks that now fade faster"]
    outcome_edges_created: Annotated[int, "edges between them that were created"]
    skipped: Annotated[Sequence[IgnoredBlock], "skipped blocks"]


@result
class CurateReport(KnowledgeResult):
    archived: Annotated[int, "blocks that were archived because they had faded"]
    edges_pruned: Annotated[int, "edges that were removed because they were too weak"]
    edges_decayed: Annotated[int, "edges that were removed because they had decayed"]
    reinforced: Annotated[int, "strong blocks that were reinforced"]
    constitutional_reinforced: Annotated[int, "constitutional blocks that were reinforced"]
    total_edges_after: Annotated[int, "remaining edges"]


@result
class GuideText:
    text: Annotated[str, "the documentation"]


@result
class BlockEdit(KnowledgeResult):
    block_id: Annotated[str, "the block"]


@result
class BlockRemoval(KnowledgeResult):
    block_id: Annotated[str, "the block"]
    status: Annotated[Literal["forgotten", "already_archived"], "the result"]


@result
class ListedBlock:
    id: Annotated[str, "the block"]
    content: Annotated[str, "its text"]
    category: Annotated[str, "its category"]
    tags: Annotated[list[str], "its tags"]
    created_at: Annotated[str, "time when it was remembered"]
    reinforcement_count: Annotated[int, "number of uses"]
    confidence: Annotated[float, "confidence, 0 to 1"]
    status: Annotated[str, "active, inbox, or archived"]
    archive_reason: Annotated[
        str | None, Field(exclude_if=lambda value: value is None), "reason for archiving"
    ] = None


@result
class BlockList(KnowledgeResult):
    result: Annotated[list[ListedBlock], "the blocks"]


@result
class DreamHealth:
    edge_creation_rate: Annotated[float, "edges per promoted block"]
    promotion_rate: Annotated[float, "share of promoted blocks"]
    deduplication_rate: Annotated[float, "share of duplicate blocks"]


@result
class DreamResult(KnowledgeResult):
    _: KW_ONLY
    status: Annotated[
        Literal["done", "idle", "out_of_time"],
        "idle if nothing was waiting; out_of_time if models took too long to process all",
    ]
    message: Annotated[
        str | None,
        Field(exclude_if=lambda value: value is None),
        "message when nothing was waiting",
    ] = None
    processed: Annotated[int, "consolidated blocks"]
    promoted: Annotated[int, "of these, blocks that are active now"]
    deduplicated: Annotated[int, "of these, blocks archived as duplicates of an older one"]
    edges_created: Annotated[int, "edges created to other blocks"]
    contradictions: Annotated[
        int, "pairs that contradict each other; recall shows one of each pair"
    ]
    near_duplicates: Annotated[int, "near-duplicate pairs; recall shows one of each pair"]
    scored_by_rules: Annotated[int, "blocks that no model has judged"]
    health: Annotated[DreamHealth | None, "the result; null if nothing was waiting"]
    inbox_remaining: Annotated[int, "blocks still waiting"]
    curated: Annotated[bool, "whether a due curation was run"]


@result
class ReplacedEdge:
    from_id: Annotated[str, "one end"]
    to_id: Annotated[str, "the other end"]
    relation_type: Annotated[str, "its relation"]
    weight: Annotated[float, "its weight"]


@result
class ConnectionResult(KnowledgeResult):
    source_id: Annotated[str, "a block"]
    target_id: Annotated[str, "another block"]
    relation: Annotated[str, "the relation"]
    weight: Annotated[float, "weight, 0 to 1"]
    action: Annotated[Action, "the action taken"]
    note: Annotated[str | None, "note on why they are related"]
    displaced_edge: Annotated[ReplacedEdge | None, "edge that was displaced"]


@result
class Disconnection(KnowledgeResult):
    source_id: Annotated[str, "a block"]
    target_id: Annotated[str, "another block"]
    action: Annotated[Literal["removed", "not_found", "guarded"], "the action taken"]
    removed_relation: Annotated[str | None, "relation of the edge"]
    removed_weight: Annotated[float | None, "weight of the edge"]


@result
class OtherBlock:
    id: Annotated[str, "the block"]
    content: Annotated[str, "beginning of its text; empty if it was forgotten"]
    status: Annotated[str, "active, inbox, or archived"]


@result
class BlockEdge:
    block: Annotated[OtherBlock, "the block at the other end"]
    relation: Annotated[str, "the relation"]
    weight: Annotated[float, "weight, 0 to 1"]
    origin: Annotated[str, "origin: similarity, outcome or agent"]
    reinforcements: Annotated[int, "how often both blocks were shown together"]
    note: Annotated[str, "note on why they are related"]


@result
class BlockConflict:
    block: Annotated[OtherBlock, "the block that contradicts this one, or says nearly the same"]
    kind: Annotated[Literal["contradiction", "near_duplicate"], "kind of conflict"]
    score: Annotated[float, "confidence of this finding, 0 to 1"]
    found_at: Annotated[str, "time of this finding"]


@result
class BlockDetails:
    id: Annotated[str, "the block"]
    content: Annotated[str, "its text; empty if it was forgotten"]
    cue: Annotated[str, "cue: the situation in which to recall it"]
    category: Annotated[str, "its category"]
    tags: Annotated[list[str], "its tags"]
    tier: Annotated[DecayTier, "tier: how long it lasts"]
    status: Annotated[
        Literal["inbox", "active", "archived"], "status; archived blocks are not recalled"
    ]
    archive_reason: Annotated[
        Literal["decayed", "superseded", "forgotten"] | None, "reason for archiving"
    ]
    superseded_by: Annotated[OtherBlock | None, "block that replaced it"]
    supersedes: Annotated[list[OtherBlock], "blocks that it replaced"]
    created_at: Annotated[str, "time when it was remembered"]
    scored_by: Annotated[str, "judge: rules, or a model; empty if not judged yet"]
    alignment: Annotated[
        float | None, "alignment with the agent's identity, 0 to 1; null if not judged"
    ]
    confidence: Annotated[float, "confidence: alpha / (alpha + beta)"]
    alpha: Annotated[float, "alpha: evidence for it"]
    beta: Annotated[float, "beta: evidence against it"]
    evidence: Annotated[float, "total weight of the outcomes recorded for it"]
    outcomes: Annotated[list[BlockOutcome], "recorded outcomes, newest first, at most 50"]
    reinforcement_count: Annotated[int, "number of uses"]
    decay_per_h: Annotated[
        float, "decay rate lambda per active hour: exp(-lambda h) remains after h hours without use"
    ]
    reinforced_h: Annotated[float, "time of the last use, on the clock of active hours"]
    now_h: Annotated[float, "current time on that clock"]
    left: Annotated[float, "the part that has not faded, 0 to 1"]
    faded_h: Annotated[
        float, "time at which it will have faded enough to be archived, on the same clock"
    ]
    degree: Annotated[float, "total weight of its edges"]
    edges: Annotated[list[BlockEdge], "its edges, strongest first, at most 50"]
    conflicts: Annotated[list[BlockConflict], "its conflicts, surest first"]
