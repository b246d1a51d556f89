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
    summary: Annotated[str, "what the call came to, in a line"]


@result
class StoreResult(KnowledgeResult):
    block_id: Annotated[str, "the block that holds the text"]
    status: Annotated[StoreStatus, "whether it was new"]
    pending_consolidation: Annotated[bool, "whether the block still waits in the inbox"]
    visible: Annotated[bool, "whether it can be recalled: at once, consolidated or not"]
    should_dream: Annotated[
        bool, "whether the inbox is full; it is then consolidated in the background too"
    ]


@result
class RecalledBlock:
    id: Annotated[str, "the block, as elfmem_outcome takes it"]
    content: Annotated[str, "its text"]
    score: Annotated[float, "what it is worth to this recall, to 3 places"]
    tags: Annotated[list[str], "its tags"]
    similarity: Annotated[float, "how well it fits the question, 0 to 1"]
    confidence: Annotated[float, "how far it can be relied on, 0 to 1"]
    recency: Annotated[float, "how much of it has not faded, 0 to 1"]
    centrality: Annotated[float, "how well it is connected, 0 to 1"]
    reinforcement: Annotated[float, "how much it was used, 0 to 1"]
    was_expanded: Annotated[bool, "whether an edge led to it, and not the question"]
    status: Annotated[str, "active, or inbox while it waits to be consolidated"]


@result
class DroppedBlock:
    id: Annotated[str, "the block"]
    content: Annotated[str, "its text"]
    tags: Annotated[list[str], "its tags"]
    reason: Annotated[Reason, "why it is not shown"]


@result
class KnowledgeRecall(KnowledgeResult):
    text: Annotated[str, "the blocks rendered for a prompt; empty when there are none"]
    frame_name: Annotated[str, "the frame"]
    cached: Annotated[bool, "whether nothing has changed since the same recall, which is repeated"]
    blocks: Annotated[list[RecalledBlock], "what the text shows, in its order"]
    dropped: Annotated[list[DroppedBlock], "what was found and is not shown"]
    budget_used: Annotated[int, "tokens of the text, about"]
    budget_total: Annotated[int, "tokens that the frame may have, about"]
    excluded_by_filter: Annotated[int, "blocks that have no place in this frame"]


@result
class TokenUsage:
    llm_input_tokens: Annotated[int, "tokens that the model was given, as this server counts"]
    llm_output_tokens: Annotated[int, "tokens that it answered"]
    embedding_tokens: Annotated[int, "tokens that were embedded"]
    llm_calls: Annotated[int, "times that the model was asked"]
    embedding_calls: Annotated[int, "times that the embedder was asked"]


@result
class MemoryStatus(KnowledgeResult):
    session_active: Annotated[bool, "whether somebody has worked with this memory lately"]
    session_hours: Annotated[float | None, "how long the session lasts; null outside of one"]
    inbox_count: Annotated[int, "blocks that wait to be consolidated; they can be recalled"]
    inbox_threshold: Annotated[int, "blocks in the inbox from which they are consolidated"]
    active_count: Annotated[int, "blocks that were consolidated"]
    archived_count: Annotated[int, "blocks that are recalled no more"]
    total_active_hours: Annotated[float, "the clock by which blocks fade: it runs within sessions"]
    last_consolidated: Annotated[str, "when a block was consolidated last, or never"]
    health: Annotated[str, "good, or attention"]
    suggestion: Annotated[str, "what to do"]
    session_tokens: Annotated[TokenUsage, "what models were given and gave in this session"]
    lifetime_tokens: Annotated[TokenUsage, "the same ever since"]


@result
class IgnoredBlock:
    id: Annotated[str, "the block that learnt nothing"]
    reason: Annotated[Skip, "why"]


@result
class OutcomeReport(KnowledgeResult):
    blocks_updated: Annotated[int, "blocks that learnt"]
    mean_confidence_delta: Annotated[float, "how much surer they are on average"]
    edges_reinforced: Annotated[int, "edges between them that were there"]
    blocks_penalized: Annotated[int, "blocks that fade faster now"]
    outcome_edges_created: Annotated[int, "edges between them that were made"]
    skipped: Annotated[Sequence[IgnoredBlock], "blocks that learnt nothing"]


@result
class CurateReport(KnowledgeResult):
    archived: Annotated[int, "blocks that had faded"]
    edges_pruned: Annotated[int, "edges that were too weak"]
    edges_decayed: Annotated[int, "edges that had become so by time"]
    reinforced: Annotated[int, "the strongest blocks, which stay so"]
    constitutional_reinforced: Annotated[int, "constitutional blocks, which stay so"]
    total_edges_after: Annotated[int, "edges that are left"]


@result
class GuideText:
    text: Annotated[str, "the documentation"]


@result
class BlockEdit(KnowledgeResult):
    block_id: Annotated[str, "the block"]


@result
class BlockRemoval(KnowledgeResult):
    block_id: Annotated[str, "the block"]
    status: Annotated[Literal["forgotten", "already_archived"], "what became of it"]


@result
class ListedBlock:
    id: Annotated[str, "the block"]
    content: Annotated[str, "its text"]
    category: Annotated[str, "its category"]
    tags: Annotated[list[str], "its tags"]
    created_at: Annotated[str, "when it was remembered"]
    reinforcement_count: Annotated[int, "how often it was used"]
    confidence: Annotated[float, "how far it can be relied on, 0 to 1"]
    status: Annotated[str, "active, inbox, or archived"]
    archive_reason: Annotated[
        str | None, Field(exclude_if=lambda value: value is None), "why it was archived"
    ] = None


@result
class BlockList(KnowledgeResult):
    result: Annotated[list[ListedBlock], "the blocks"]


@result
class DreamHealth:
    edge_creation_rate: Annotated[float, "edges for each block that was promoted"]
    promotion_rate: Annotated[float, "share of blocks that were promoted"]
    deduplication_rate: Annotated[float, "share of blocks that say what another one says"]


@result
class DreamResult(KnowledgeResult):
    _: KW_ONLY
    status: Annotated[
        Literal["done", "idle", "out_of_time"],
        "idle when nothing waited; out_of_time when models took too long for all",
    ]
    message: Annotated[
        str | None, Field(exclude_if=lambda value: value is None), "that nothing waited"
    ] = None
    processed: Annotated[int, "blocks that were consolidated"]
    promoted: Annotated[int, "those of them that are active now"]
    deduplicated: Annotated[int, "those that say what an older one says, and were archived"]
    edges_created: Annotated[int, "edges to other blocks"]
    contradictions: Annotated[int, "pairs that cannot both be true; one of each is shown"]
    near_duplicates: Annotated[int, "pairs that say nearly the same; one of each is shown"]
    scored_by_rules: Annotated[int, "blocks that no model has judged"]
    health: Annotated[DreamHealth | None, "how it went; null when nothing waited"]
    inbox_remaining: Annotated[int, "blocks that still wait"]
    curated: Annotated[bool, "whether a curation was due and done"]


@result
class ReplacedEdge:
    from_id: Annotated[str, "one end"]
    to_id: Annotated[str, "the other end"]
    relation_type: Annotated[str, "what it was"]
    weight: Annotated[float, "how strong it was"]


@result
class ConnectionResult(KnowledgeResult):
    source_id: Annotated[str, "a block"]
    target_id: Annotated[str, "another block"]
    relation: Annotated[str, "how they hang together"]
    weight: Annotated[float, "how strongly, 0 to 1"]
    action: Annotated[Action, "what was done"]
    note: Annotated[str | None, "why they hang together"]
    displaced_edge: Annotated[ReplacedEdge | None, "the edge that had to make room"]


@result
class Disconnection(KnowledgeResult):
    source_id: Annotated[str, "a block"]
    target_id: Annotated[str, "another block"]
    action: Annotated[Literal["removed", "not_found", "guarded"], "what was done"]
    removed_relation: Annotated[str | None, "what the edge was"]
    removed_weight: Annotated[float | None, "how strong it was"]


@result
class OtherBlock:
    id: Annotated[str, "the block"]
    content: Annotated[str, "how its text begins; empty when it was forgotten"]
    status: Annotated[str, "active, inbox, or archived"]


@result
class BlockEdge:
    block: Annotated[OtherBlock, "the block at the other end"]
    relation: Annotated[str, "how the two hang together"]
    weight: Annotated[float, "how strongly, 0 to 1"]
    origin: Annotated[str, "who found it: similarity, outcome or agent"]
    reinforcements: Annotated[int, "how often both were shown together"]
    note: Annotated[str, "why they hang together, as it was stated"]


@result
class BlockConflict:
    block: Annotated[
        OtherBlock, "the block that cannot be true beside this one, or says nearly the same"
    ]
    kind: Annotated[Literal["contradiction", "near_duplicate"], "which of both"]
    score: Annotated[float, "how surely, 0 to 1"]
    found_at: Annotated[str, "when that was found"]


@result
class BlockDetails:
    id: Annotated[str, "the block"]
    content: Annotated[str, "its text; empty when it was forgotten"]
    cue: Annotated[str, "the situation in which it is to be recalled"]
    category: Annotated[str, "its category"]
    tags: Annotated[list[str], "its tags"]
    tier: Annotated[DecayTier, "how lasting it is"]
    status: Annotated[
        Literal["inbox", "active", "archived"], "whether it is recalled: archived is not"
    ]
    archive_reason: Annotated[
        Literal["decayed", "superseded", "forgotten"] | None, "why it was archived"
    ]
    superseded_by: Annotated[OtherBlock | None, "the block that stands for it now"]
    supersedes: Annotated[list[OtherBlock], "the blocks for which it stands"]
    created_at: Annotated[str, "when it was remembered"]
    scored_by: Annotated[str, "who judged it: rules, or a model; empty when nobody has"]
    alignment: Annotated[
        float | None, "how well it fits who the agent is, 0 to 1; null when nobody judged"
    ]
    confidence: Annotated[float, "how far it can be relied on: alpha in alpha + beta"]
    alpha: Annotated[float, "what speaks for it"]
    beta: Annotated[float, "what speaks against it"]
    evidence: Annotated[float, "the weight of all outcomes that were told of it"]
    outcomes: Annotated[
        list[BlockOutcome], "how it went when it was used, the latest first, 50 at the most"
    ]
    reinforcement_count: Annotated[int, "how often it was used"]
    decay_per_h: Annotated[
        float, "lambda: what is left after h active hours unused is exp(-lambda h)"
    ]
    reinforced_h: Annotated[float, "when it was used last, on the clock of active hours"]
    now_h: Annotated[float, "that clock now"]
    left: Annotated[float, "what has not faded of it now, 0 to 1"]
    faded_h: Annotated[
        float, "when it will have faded so far that it may be archived, on the same clock"
    ]
    degree: Annotated[float, "the weights of all its edges together"]
    edges: Annotated[
        list[BlockEdge], "what it hangs together with, the strongest first, 50 at the most"
    ]
    conflicts: Annotated[list[BlockConflict], "what it does not go together with, the surest first"]
