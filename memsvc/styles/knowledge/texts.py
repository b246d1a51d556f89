"""One-line summaries of results: the texts of elfmem's command line."""

from collections import Counter

from memsvc.store.edges import Edge
from memsvc.styles.knowledge.knowledge_models import (
    CurateReport,
    KnowledgeRecall,
    MemoryStatus,
    OutcomeReport,
    ReplacedEdge,
    TokenUsage,
)

_REASONS = {
    "constitutional": "constitutional (identity is not judged by task outcomes)",
    "pending_inbox": "still in the inbox — NOT recorded; run dream(), then send the signal again",
    "archived": "archived",
    "unmatched": "unmatched",
}


def remembered(block_id: str, status: str) -> str:
    if status == "created":
        return f"Stored block {block_id[:8]}. Status: created."
    return f"Duplicate — block {block_id[:8]} already exists."


def recalled(result: KnowledgeRecall) -> str:
    count = len(result.blocks)
    if not count and not result.dropped:
        if result.excluded_by_filter:
            return (
                f"{result.frame_name} frame: no blocks found — {result.excluded_by_filter} excluded"
                " by this frame's tag filter. Identity blocks belong to the self frame; if you"
                " expected knowledge here, none matched."
            )
        return f"{result.frame_name} frame: no blocks found."
    text = f"{result.frame_name} frame: {count} block{'' if count == 1 else 's'} returned"
    text += " (cached)" if result.cached else ""
    text += f", {result.budget_used}/{result.budget_total} tokens"
    if result.dropped:
        counts = Counter(one.reason for one in result.dropped)
        text += (
            f" — {len(result.dropped)} dropped"
            f" ({', '.join(f'{counts[one]} {one}' for one in sorted(counts))})"
        )
    return text + "."


def status(now: MemoryStatus) -> str:
    hours = now.session_hours
    session = "inactive" if hours is None else f"active ({hours:.1f}h)"
    counts = f"Inbox: {now.inbox_count}/{now.inbox_threshold} | Active: {now.active_count} blocks"
    return "\n".join(
        [
            f"Session: {session} | {counts} | Health: {now.health}",
            f"Tokens this session: {tokens(now.session_tokens)}",
            f"Suggestion: {now.suggestion}",
        ]
    )


def tokens(usage: TokenUsage) -> str:
    llm_tokens = usage.llm_input_tokens + usage.llm_output_tokens
    calls = usage.embedding_calls
    if not (llm_tokens or usage.llm_calls or usage.embedding_tokens or calls):
        return "no token usage recorded"
    llm = f"{llm_tokens:,} tokens ({usage.llm_calls} calls)" if usage.llm_calls else "—"
    embed = f"{usage.embedding_tokens:,} tokens ({calls} calls)" if calls else "—"
    return f"LLM: {llm} | Embed: {embed}"


def outcome(result: OutcomeReport) -> str:
    counts = Counter(one.reason for one in result.skipped)
    ignored = "; ".join(f"{counts[one]} {_REASONS[one]}" for one in sorted(counts))
    tail = f" Not scored: {ignored}." if ignored else ""
    if not result.blocks_updated:
        return f"Outcome recorded: nothing to update.{tail}"
    delta = result.mean_confidence_delta
    parts = [f"{_blocks(result.blocks_updated)} updated ({delta:+.3f} avg confidence)"]
    if result.outcome_edges_created:
        parts.append(f"{result.outcome_edges_created} outcome edges created")
    if result.edges_reinforced:
        parts.append(f"{result.edges_reinforced} edges reinforced")
    if result.blocks_penalized:
        parts.append(f"{_blocks(result.blocks_penalized)} penalized")
    return f"Outcome recorded: {', '.join(parts)}.{tail}"


def curated(result: CurateReport) -> str:
    parts = []
    if result.archived:
        parts.append(f"{result.archived} archived")
    if result.edges_pruned:
        parts.append(f"{result.edges_pruned} edges pruned")
    if result.edges_decayed:
        left = f" ({result.total_edges_after} remain)" if result.total_edges_after else ""
        parts.append(f"{result.edges_decayed} edges decayed{left}")
    if result.reinforced:
        parts.append(f"{result.reinforced} reinforced")
    if result.constitutional_reinforced:
        parts.append(f"{result.constitutional_reinforced} constitutional reinforced")
    if not parts:
        return "Curated: nothing required."
    text = f"Curated: {', '.join(parts)}."
    if (
        result.total_edges_after
        and result.edges_decayed / (result.edges_decayed + result.total_edges_after) > 0.25
    ):
        text += " Tip: consider recall() to reactivate relevant knowledge clusters."
    return text


def connected(
    source: str, target: str, action: str, edge: Edge, replaced: ReplacedEdge | None
) -> str:
    text = (
        f"{action.title()} {edge.relation} edge: {source[:8]}…→{target[:8]}…"
        f" (weight={edge.weight:.2f})."
    )
    if replaced is not None:
        text += (
            f" Displaced auto-{replaced.relation_type} edge"
            f" (weight={replaced.weight:.2f}) to fit degree cap."
        )
    return text


def disconnected(source: str, target: str, action: str, edge: Edge | None) -> str:
    if edge is not None:
        return (
            f"Removed {edge.relation} edge: {source[:8]}…→{target[:8]}… (was"
            f" weight={edge.weight:.2f})."
        )
    if action == "guarded":
        return "Edge not removed — relation type did not match guard_relation."
    return f"No edge found between {source[:8]}… and {target[:8]}…"


def listed(count: int, *, nothing: str) -> str:
    return f"{_blocks(count)}." if count else nothing


def _blocks(count: int) -> str:
    return f"{count} block{'' if count == 1 else 's'}"
