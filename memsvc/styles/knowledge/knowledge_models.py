"""Types of what the knowledge tools take and return."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from memsvc.core.decay import DecayTier
from memsvc.core.errors import invalid
from memsvc.core.tool_methods import OMIT_NONE, result, tool
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
        raise invalid(
            "a tag or category must not be blank and must contain only printable characters"
        )
    return value.strip()


Name = Annotated[str, Field(max_length=NAME_CHARS_MAX), AfterValidator(_name)]
BlockId = Annotated[str, Field(max_length=NAME_CHARS_MAX), AfterValidator(_plain)]
Content = Annotated[str, Field(max_length=CONTENT_CHARS_MAX), AfterValidator(_not_blank)]
Keywords = Annotated[str, Field(max_length=KEYWORDS_CHARS_MAX), AfterValidator(_plain)]
Words = Annotated[str, Field(max_length=NAME_CHARS_MAX), AfterValidator(_plain)]

CUE: Final = "when to recall the block, in the words of later queries"
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
    block_id: Annotated[str, "id of the block that contains the text"]
    status: Annotated[StoreStatus, "whether the text was new"]
    pending_consolidation: Annotated[bool, "whether the block is still in the inbox"]
    visible: Annotated[
        bool,
        "always true: a block can be recalled at once",
    ]
    should_dream: Annotated[
        bool, "whether the inbox is full; the server then consolidates it in the background"
    ]


@result
class RecalledBlock:
    id: Annotated[str, "id of the block, to pass to elfmem_outcome"]
    content: Annotated[str, "text of the block"]
    score: Annotated[float, "total score of the block in this recall, rounded to 3 places"]
    tags: Annotated[list[str], "tags of the block"]
    similarity: Annotated[float, "relevance of the block to the question, 0 to 1"]
    confidence: Annotated[float, "confidence that the block is helpful, 0 to 1"]
    recency: Annotated[float, "1 right after the block was used, falling to 0 as it fades"]
    centrality: Annotated[
        float, "how strongly the block is connected, relative to the other blocks found, 0 to 1"
    ]
    reinforcement: Annotated[
        float, "how often the block was used, relative to the most used block found, 0 to 1"
    ]
    was_expanded: Annotated[
        bool, "whether the block was found through an edge instead of by the question"
    ]
    status: Annotated[str, "active, or inbox while the block waits to be consolidated"]


@result
class DroppedBlock:
    id: Annotated[str, "id of the block"]
    content: Annotated[str, "text of the block"]
    tags: Annotated[list[str], "tags of the block"]
    reason: Annotated[Reason, "reason why the block is not shown"]


@result
class KnowledgeRecall(KnowledgeResult):
    text: Annotated[str, "the blocks rendered for a prompt; empty if there are none"]
    frame_name: Annotated[str, "frame by which the blocks were chosen"]
    cached: Annotated[bool, "whether this is the cached result of an identical earlier recall"]
    blocks: Annotated[list[RecalledBlock], "blocks in the text, in the order in which they appear"]
    dropped: Annotated[list[DroppedBlock], "blocks that were found but are not shown"]
    budget_used: Annotated[int, "approximate number of tokens of the text"]
    budget_total: Annotated[int, "approximate token limit of the text"]
    excluded_by_filter: Annotated[int, "number of blocks excluded because of their tags"]


@result
class TokenUsage:
    llm_input_tokens: Annotated[
        int, "number of tokens sent to the model, as counted by this server"
    ]
    llm_output_tokens: Annotated[int, "number of tokens returned by the model"]
    embedding_tokens: Annotated[int, "number of tokens given to the embedder"]
    llm_calls: Annotated[int, "number of model calls"]
    embedding_calls: Annotated[int, "number of embedder calls"]


@result
class MemoryStatus(KnowledgeResult):
    session_active: Annotated[bool, "whether a session is in progress"]
    session_hours: Annotated[
        float | None, "duration of the session in hours; null if there is no session"
    ]
    inbox_count: Annotated[
        int, "number of blocks waiting to be consolidated, which can already be recalled"
    ]
    inbox_threshold: Annotated[int, "number of blocks in the inbox at which consolidation starts"]
    active_count: Annotated[int, "number of consolidated blocks"]
    archived_count: Annotated[int, "number of archived blocks, which are not recalled"]
    total_active_hours: Annotated[
        float,
        "total duration of all sessions in hours; blocks fade only during sessions",
    ]
    last_consolidated: Annotated[str, "time of the last consolidation, or the word never"]
    health: Annotated[str, "attention if the inbox is full, otherwise good"]
    suggestion: Annotated[str, "recommended next action"]
    session_tokens: Annotated[TokenUsage, "token usage of this session"]
    lifetime_tokens: Annotated[TokenUsage, "token usage of all sessions together"]


@result
class IgnoredBlock:
    id: Annotated[str, "id of the skipped block"]
    reason: Annotated[Skip, "reason why the block was skipped"]


@result
class OutcomeReport(KnowledgeResult):
    blocks_updated: Annotated[int, "number of blocks whose confidence was updated"]
    mean_confidence_delta: Annotated[
        float, "average change in the confidence of the updated blocks"
    ]
    edges_reinforced: Annotated[int, "number of reinforced edges between the updated blocks"]
    blocks_penalized: Annotated[int, "number of blocks that now fade faster"]
    outcome_edges_created: Annotated[int, "number of new edges between the updated blocks"]
    skipped: Annotated[Sequence[IgnoredBlock], "blocks to which the outcome was not applied"]


@result
class CurateReport(KnowledgeResult):
    archived: Annotated[int, "number of blocks archived because they had faded"]
    edges_pruned: Annotated[int, "number of edges removed because they were too weak"]
    edges_decayed: Annotated[int, "number of edges removed because they had decayed"]
    reinforced: Annotated[int, "number of strong blocks that were reinforced"]
    constitutional_reinforced: Annotated[
        int, "number of reinforced blocks with the tag self/constitutional"
    ]
    total_edges_after: Annotated[int, "number of edges that remain"]


@result
class GuideText:
    text: Annotated[str, "text of the documentation"]


@result
class BlockEdit(KnowledgeResult):
    block_id: Annotated[str, "id of the block"]


@result
class BlockRemoval(KnowledgeResult):
    block_id: Annotated[str, "id of the block"]
    status: Annotated[Literal["forgotten", "already_archived"], "the result"]


@result
class ListedBlock:
    id: Annotated[str, "id of the block"]
    content: Annotated[str, "text of the block"]
    category: Annotated[str, "category of the block"]
    tags: Annotated[list[str], "tags of the block"]
    created_at: Annotated[str, "time when the block was remembered"]
    reinforcement_count: Annotated[int, "number of uses of the block"]
    confidence: Annotated[float, "confidence that the block is helpful, 0 to 1"]
    status: Annotated[str, "state of the block: active, inbox or archived"]
    archive_reason: Annotated[
        str | None,
        OMIT_NONE,
        "reason why the block was archived",
    ] = None


@result
class BlockList(KnowledgeResult):
    result: Annotated[list[ListedBlock], "the blocks"]


@result
class DreamHealth:
    edge_creation_rate: Annotated[float, "average number of new edges per promoted block"]
    promotion_rate: Annotated[float, "share of the processed blocks that became active"]
    deduplication_rate: Annotated[float, "share of the processed blocks that were duplicates"]


@result
class DreamResult(KnowledgeResult):
    _: KW_ONLY
    status: Annotated[
        Literal["done", "idle", "out_of_time"],
        "idle if no block was waiting; out_of_time if models were too slow to process all blocks",
    ]
    message: Annotated[
        str | None,
        OMIT_NONE,
        "note that no block was waiting; otherwise omitted",
    ] = None
    processed: Annotated[int, "number of consolidated blocks"]
    promoted: Annotated[int, "number of processed blocks that became active"]
    deduplicated: Annotated[
        int, "number of processed blocks that were archived as duplicates of an older block"
    ]
    edges_created: Annotated[int, "number of new edges between blocks"]
    contradictions: Annotated[
        int,
        "number of contradicting pairs that were found; recall shows one block of each pair",
    ]
    near_duplicates: Annotated[
        int, "number of near-duplicate pairs that were found; recall shows one block of each pair"
    ]
    scored_by_rules: Annotated[int, "number of blocks that were judged by rules, not by a model"]
    health: Annotated[
        DreamHealth | None, "rates of this consolidation; null if no block was processed"
    ]
    inbox_remaining: Annotated[int, "number of blocks still waiting in the inbox"]
    curated: Annotated[bool, "whether curation ran too, because it was due"]


@result
class ReplacedEdge:
    from_id: Annotated[str, "id of the block at one end of the edge"]
    to_id: Annotated[str, "id of the block at the other end of the edge"]
    relation_type: Annotated[str, "relation between the two blocks"]
    weight: Annotated[float, "weight of the edge"]


@result
class ConnectionResult(KnowledgeResult):
    source_id: Annotated[str, "id of a block"]
    target_id: Annotated[str, "id of the other block"]
    relation: Annotated[str, "relation of the edge"]
    weight: Annotated[float, "weight of the edge, 0 to 1"]
    action: Annotated[Action, "what was done with the edge"]
    note: Annotated[str | None, "note on why the blocks are related"]
    displaced_edge: Annotated[ReplacedEdge | None, "edge that the new edge replaced"]


@result
class Disconnection(KnowledgeResult):
    source_id: Annotated[str, "id of a block"]
    target_id: Annotated[str, "id of the other block"]
    action: Annotated[
        Literal["removed", "not_found", "guarded"],
        "removed, not_found, or guarded if the relation differs from guard_relation",
    ]
    removed_relation: Annotated[str | None, "relation of the removed edge"]
    removed_weight: Annotated[float | None, "weight of the removed edge"]


@result
class OtherBlock:
    id: Annotated[str, "id of the block"]
    content: Annotated[str, "beginning of the block's text; empty if the block was forgotten"]
    status: Annotated[str, "state of the block: active, inbox or archived"]


@result
class BlockEdge:
    block: Annotated[OtherBlock, "block at the other end of the edge"]
    relation: Annotated[str, "relation of the edge"]
    weight: Annotated[float, "weight of the edge, 0 to 1"]
    origin: Annotated[str, "what created the edge: similarity, outcome or agent"]
    reinforcements: Annotated[int, "how often the edge was reinforced"]
    note: Annotated[str, "note on why the blocks are related"]


@result
class BlockConflict:
    block: Annotated[
        OtherBlock, "the other block, which contradicts this block or says nearly the same"
    ]
    kind: Annotated[Literal["contradiction", "near_duplicate"], "kind of conflict"]
    score: Annotated[
        float, "confidence in the contradiction, or similarity of near-duplicates, 0 to 1"
    ]
    found_at: Annotated[str, "time when the conflict was found"]


@result
class BlockDetails:
    id: Annotated[str, "id of the block"]
    content: Annotated[str, "text of the block; empty if the block was forgotten"]
    cue: Annotated[str, "the situation in which to recall the block"]
    category: Annotated[str, "category of the block"]
    tags: Annotated[list[str], "tags of the block"]
    tier: Annotated[DecayTier, "how slowly the block fades"]
    status: Annotated[
        Literal["inbox", "active", "archived"],
        "status of the block; archived blocks are not recalled",
    ]
    archive_reason: Annotated[
        Literal["decayed", "superseded", "forgotten"] | None, "reason why the block was archived"
    ]
    superseded_by: Annotated[OtherBlock | None, "block that replaced this one"]
    supersedes: Annotated[list[OtherBlock], "blocks that this one replaced"]
    created_at: Annotated[str, "time when the block was remembered"]
    scored_by: Annotated[
        str, "what judged the block: rules, or the name of a model; empty if not judged yet"
    ]
    alignment: Annotated[
        float | None, "how well the block fits the agent's identity, 0 to 1; null if not judged"
    ]
    confidence: Annotated[float, "confidence that the block is helpful: alpha / (alpha + beta)"]
    alpha: Annotated[
        float,
        "evidence that the block is helpful: initial value plus the sum of weight x signal"
        " over all outcomes",
    ]
    beta: Annotated[
        float,
        "evidence that the block is unhelpful: initial value plus the sum of weight x"
        " (1 - signal) over all outcomes",
    ]
    evidence: Annotated[float, "total weight of the outcomes recorded for the block"]
    outcomes: Annotated[
        list[BlockOutcome], "outcomes recorded for the block, newest first, at most 50"
    ]
    reinforcement_count: Annotated[int, "number of uses of the block"]
    decay_per_h: Annotated[
        float,
        "rate lambda at which the block fades: after h active hours without use,"
        " left = exp(-lambda h)",
    ]
    reinforced_h: Annotated[float, "active hours counted until the block was last used"]
    now_h: Annotated[float, "current number of active hours, which count only during sessions"]
    left: Annotated[float, "1 right after the block was used, falling to 0 as it fades"]
    faded_h: Annotated[
        float,
        "value of now_h at which the block will have faded enough to be archived",
    ]
    degree: Annotated[float, "total weight of the block's edges"]
    edges: Annotated[list[BlockEdge], "edges of the block, strongest first, at most 50"]
    conflicts: Annotated[
        list[BlockConflict], "contradictions and near-duplicates of the block, most certain first"
    ]
