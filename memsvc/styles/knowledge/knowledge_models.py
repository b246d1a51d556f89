"""Arguments and results of the knowledge tools."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from memsvc.core.errors import invalid
from memsvc.core.tools import Arguments, Result
from memsvc.styles.knowledge.tiers import KNOWLEDGE

CONTENT_CHARS_MAX: Final = 20_000
KEYWORDS_CHARS_MAX: Final = 1_000
NAME_CHARS_MAX: Final = 128
TAGS_MAX: Final = 32
IDS_MAX: Final = 50
LISTED_MAX: Final = 1_000
TOP_K_MAX: Final = 50
LOGGED: Final = frozenset(
    {"project", "block_id", "target", "frame", "method", "if_exists", "relation"}
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

_KEYWORDS_DESCRIPTION = "the situation in which to recall it, in the words that will be used then"


class RememberArguments(Arguments):
    content: Content = Field(
        description="a fact, preference, decision or observation worth keeping"
    )
    tags: list[Name] = Field(
        [],
        max_length=TAGS_MAX,
        description="tags such as python, or self/goal, self/value, self/constitutional",
    )
    cue: Keywords = Field("", description=_KEYWORDS_DESCRIPTION)
    category: Name = Field(
        KNOWLEDGE, description="knowledge, observation (fades fast), mind, decision, ..."
    )


class KnowledgeResult(Result):
    summary: str = Field(description="what the call came to, in a line")


class RememberResult(KnowledgeResult):
    block_id: str = Field(description="the block that holds the text")
    status: Literal["created", "duplicate_rejected"] = Field(description="whether it was new")
    pending_consolidation: bool = Field(description="whether the block still waits in the inbox")
    visible: bool = Field(description="whether it can be recalled: at once, consolidated or not")
    should_dream: bool = Field(
        description="whether the inbox is full; it is then consolidated in the background too"
    )


class KnowledgeRecallArguments(Arguments):
    query: str = Field(
        max_length=CONTENT_CHARS_MAX,
        description="what is asked; empty: what counts most in the frame",
    )
    top_k: int | None = Field(
        None,
        ge=1,
        le=TOP_K_MAX,
        description="blocks at the most; if not given 5, or as many as are guaranteed",
    )
    frame: str = Field(
        "attention",
        max_length=NAME_CHARS_MAX,
        description="attention (what bears on the question), self (identity), task (goals) or"
        " simulate (minds)",
    )


class RecalledBlock(Result):
    id: str = Field(description="the block, as elfmem_outcome takes it")
    content: str = Field(description="its text")
    score: float = Field(description="what it is worth to this recall, to 3 places")
    tags: list[str] = Field(description="its tags")
    similarity: float = Field(description="how well it fits the question, 0 to 1")
    confidence: float = Field(description="how far it can be relied on, 0 to 1")
    recency: float = Field(description="how much of it has not faded, 0 to 1")
    centrality: float = Field(description="how well it is connected, 0 to 1")
    reinforcement: float = Field(description="how much it was used, 0 to 1")
    was_expanded: bool = Field(description="whether an edge led to it, and not the question")
    status: str = Field(description="active, or inbox while it waits to be consolidated")


class DroppedBlock(Result):
    id: str = Field(description="the block")
    content: str = Field(description="its text")
    tags: list[str] = Field(description="its tags")
    reason: Literal["top_k", "token_budget", "contradiction"] = Field(
        description="why it is not shown"
    )


class KnowledgeRecallResult(KnowledgeResult):
    text: str = Field(description="the blocks rendered for a prompt; empty when there are none")
    frame_name: str = Field(description="the frame")
    cached: bool = Field(
        description="whether nothing has changed since the same recall, which is repeated"
    )
    blocks: list[RecalledBlock] = Field(description="what the text shows, in its order")
    dropped: list[DroppedBlock] = Field(description="what was found and is not shown")
    budget_used: int = Field(description="tokens of the text, about")
    budget_total: int = Field(description="tokens that the frame may have, about")
    excluded_by_filter: int = Field(description="blocks that have no place in this frame")


class StatusArguments(Arguments):
    pass


class TokenUsage(Result):
    llm_input_tokens: int = Field(
        description="tokens that the model was given, as this server counts"
    )
    llm_output_tokens: int = Field(description="tokens that it answered")
    embedding_tokens: int = Field(description="tokens that were embedded")
    llm_calls: int = Field(description="times that the model was asked")
    embedding_calls: int = Field(description="times that the embedder was asked")


class StatusResult(KnowledgeResult):
    session_active: bool = Field(description="whether somebody has worked with this memory lately")
    session_hours: float | None = Field(
        description="how long the session lasts; null outside of one"
    )
    inbox_count: int = Field(
        description="blocks that wait to be consolidated; they can be recalled"
    )
    inbox_threshold: int = Field(description="blocks in the inbox from which they are consolidated")
    active_count: int = Field(description="blocks that were consolidated")
    archived_count: int = Field(description="blocks that are recalled no more")
    total_active_hours: float = Field(
        description="the clock by which blocks fade: it runs within sessions"
    )
    last_consolidated: str = Field(description="when a block was consolidated last, or never")
    health: str = Field(description="good, or attention")
    suggestion: str = Field(description="what to do")
    session_tokens: TokenUsage = Field(
        description="what models were given and gave in this session"
    )
    lifetime_tokens: TokenUsage = Field(description="the same ever since")


class OutcomeArguments(Arguments):
    block_ids: list[BlockId] = Field(
        max_length=IDS_MAX, description="blocks of a recall that were used"
    )
    signal: float = Field(
        description="0 (it failed) to 1 (it succeeded): above 0.5 reinforces, below 0.2 penalises"
    )
    weight: float = Field(1.0, le=1e6, description="how much it counts, above 0")
    source: Words = Field("", description="where the signal comes from, such as test_pass")


class IgnoredBlock(Result):
    id: str = Field(description="the block that learnt nothing")
    reason: Literal["constitutional", "pending_inbox", "archived", "unmatched"] = Field(
        description="why"
    )


class OutcomeResult(KnowledgeResult):
    blocks_updated: int = Field(description="blocks that learnt")
    mean_confidence_delta: float = Field(description="how much surer they are on average")
    edges_reinforced: int = Field(description="edges between them that were there")
    blocks_penalized: int = Field(description="blocks that fade faster now")
    outcome_edges_created: int = Field(description="edges between them that were made")
    skipped: list[IgnoredBlock] = Field(description="blocks that learnt nothing")


class CurateArguments(Arguments):
    pass


class CurateResult(KnowledgeResult):
    archived: int = Field(description="blocks that had faded")
    edges_pruned: int = Field(description="edges that were too weak")
    edges_decayed: int = Field(description="edges that had become so by time")
    reinforced: int = Field(description="the strongest blocks, which stay so")
    constitutional_reinforced: int = Field(description="constitutional blocks, which stay so")
    total_edges_after: int = Field(description="edges that are left")


class GuideArguments(Arguments):
    method: Words | None = Field(
        None, description="an operation such as remember; nothing: an overview"
    )


class GuideResult(Result):
    text: str = Field(description="the documentation")


class EditArguments(Arguments):
    block_id: BlockId = Field(description="the block")
    content: Content | None = Field(None, description="what it says from now on")
    cue: Keywords | None = Field(None, description=_KEYWORDS_DESCRIPTION)


class EditResult(KnowledgeResult):
    block_id: str = Field(description="the block")


class ForgetBlockArguments(Arguments):
    block_id: BlockId = Field(description="the block")


class ForgetBlockResult(KnowledgeResult):
    block_id: str = Field(description="the block")
    status: Literal["forgotten", "already_archived"] = Field(description="what became of it")


class BlockListArguments(Arguments):
    tag: Words | None = Field(
        None, description="a tag; % stands for any characters, _ for one, as in self/%"
    )
    category: Words | None = Field(None, description="a category")
    limit: int = Field(50, ge=1, le=LISTED_MAX, description="blocks at the most")
    archived: bool = Field(
        False,
        description="those that are recalled no more instead, remembered last first; they have no"
        " tags",
    )


class InboxArguments(Arguments):
    max_count: int | None = Field(
        None, ge=1, le=LISTED_MAX, description="blocks at the most; if not given 1000"
    )


class ListedBlock(Result):
    id: str = Field(description="the block")
    content: str = Field(description="its text")
    category: str = Field(description="its category")
    tags: list[str] = Field(description="its tags")
    created_at: str = Field(description="when it was remembered")
    reinforcement_count: int = Field(description="how often it was used")
    confidence: float = Field(description="how far it can be relied on, 0 to 1")
    status: str = Field(description="active, inbox, or archived")
    archive_reason: str | None = Field(
        None, description="why it was archived", exclude_if=lambda value: value is None
    )


class BlockListResult(KnowledgeResult):
    result: list[ListedBlock] = Field(description="the blocks")


class DreamArguments(Arguments):
    no_llm: bool = Field(False, description="let rules judge the blocks and not the model")


class DreamHealth(Result):
    edge_creation_rate: float = Field(description="edges for each block that was promoted")
    promotion_rate: float = Field(description="share of blocks that were promoted")
    deduplication_rate: float = Field(description="share of blocks that say what another one says")


class DreamResult(KnowledgeResult):
    status: Literal["done", "idle", "out_of_time"] = Field(
        description="idle when nothing waited; out_of_time when models took too long for all"
    )
    message: str | None = Field(
        None, description="that nothing waited", exclude_if=lambda value: value is None
    )
    processed: int = Field(description="blocks that were consolidated")
    promoted: int = Field(description="those of them that are active now")
    deduplicated: int = Field(
        description="those that say what an older one says, and were archived"
    )
    edges_created: int = Field(description="edges to other blocks")
    contradictions: int = Field(description="pairs that cannot both be true; one of each is shown")
    near_duplicates: int = Field(description="pairs that say nearly the same; one of each is shown")
    scored_by_rules: int = Field(description="blocks that no model has judged")
    health: DreamHealth | None = Field(description="how it went; null when nothing waited")
    inbox_remaining: int = Field(description="blocks that still wait")
    curated: bool = Field(description="whether a curation was due and done")


class ConnectArguments(Arguments):
    source: BlockId = Field(description="a block")
    target: BlockId = Field(description="another block")
    relation: Name | None = Field(
        None,
        description="similar, elaborates, supports, contradicts, predicts, validates, or a word"
        " of yours",
    )
    note: Keywords | None = Field(None, description="why they hang together")
    if_exists: Literal["reinforce", "update", "skip", "error"] = Field(
        "reinforce",
        description="what to do when they do already; update gives a relation that is named its"
        " weight",
    )


class ReplacedEdge(Result):
    from_id: str = Field(description="one end")
    to_id: str = Field(description="the other end")
    relation_type: str = Field(description="what it was")
    weight: float = Field(description="how strong it was")


class ConnectResult(KnowledgeResult):
    source_id: str = Field(description="a block")
    target_id: str = Field(description="another block")
    relation: str = Field(description="how they hang together")
    weight: float = Field(description="how strongly, 0 to 1")
    action: Literal["created", "reinforced", "updated", "skipped"] = Field(
        description="what was done"
    )
    note: str | None = Field(description="why they hang together")
    displaced_edge: ReplacedEdge | None = Field(description="the edge that had to make room")


class DisconnectArguments(Arguments):
    source: BlockId = Field(description="a block")
    target: BlockId = Field(description="another block")
    guard_relation: Words | None = Field(
        None, description="remove the edge only if it is of this relation"
    )
    reason: Keywords = Field("", description="why; accepted for older clients and not kept")


class DisconnectResult(KnowledgeResult):
    source_id: str = Field(description="a block")
    target_id: str = Field(description="another block")
    action: Literal["removed", "not_found", "guarded"] = Field(description="what was done")
    removed_relation: str | None = Field(description="what the edge was")
    removed_weight: float | None = Field(description="how strong it was")
