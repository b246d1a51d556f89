"""One-line summaries of results: the texts of elfmem's command line."""

from collections import Counter
from collections.abc import Sequence

from memsvc.store.edges import Edge
from memsvc.styles.knowledge.block_outcomes import OutcomeReport
from memsvc.styles.knowledge.block_recall import BlockRecall
from memsvc.styles.knowledge.block_store import StoreResult
from memsvc.styles.knowledge.curate import CurateReport
from memsvc.styles.knowledge.dream import DreamReport
from memsvc.styles.knowledge.edge_editor import ConnectionResult
from memsvc.styles.knowledge.memory_status import MemoryStatus

IDLE = "No pending blocks to consolidate"
_REASONS = {
    "constitutional": "constitutional (identity is not judged by task outcomes)",
    "pending_inbox": "still in the inbox — NOT recorded; run dream(), then send the signal again",
    "archived": "archived",
    "unmatched": "unmatched",
}


def remembered(result: StoreResult) -> str:
    short = result.block_id[:8]
    if result.status == "created":
        return f"Stored block {short}. Status: created."
    return f"Duplicate — block {short} already exists."


def recalled(result: BlockRecall) -> str:
    count = len(result.blocks)
    if not count and not result.dropped:
        if result.excluded:
            return (
                f"{result.frame} frame: no blocks found — {result.excluded} excluded by this"
                " frame's tag filter. Identity blocks belong to the self frame; if you expected"
                " knowledge here, none matched."
            )
        return f"{result.frame} frame: no blocks found."
    text = f"{result.frame} frame: {count} block{'' if count == 1 else 's'} returned"
    text += " (cached)" if result.cached else ""
    text += f", {result.rendered.used_tok}/{result.budget_tok} tokens"
    if result.dropped:
        counts = Counter(reason for _, reason in result.dropped)
        text += (
            f" — {len(result.dropped)} dropped"
            f" ({', '.join(f'{counts[one]} {one}' for one in sorted(counts))})"
        )
    return text + "."


def status(now: MemoryStatus) -> str:
    session = "inactive" if now.session_h is None else f"active ({now.session_h:.1f}h)"
    counts = f"Inbox: {now.inbox}/{now.threshold} | Active: {now.active} blocks"
    return "\n".join(
        [
            f"Session: {session} | {counts} | Health: {now.health}",
            f"Tokens this session: {tokens(now.session_tokens)}",
            f"Suggestion: {now.suggestion}",
        ]
    )


def tokens(usage: dict[str, int]) -> str:
    if not any(usage.values()):
        return "no token usage recorded"
    llm_tokens = usage["llm_input_tokens"] + usage["llm_output_tokens"]
    llm = f"{llm_tokens:,} tokens ({usage['llm_calls']} calls)" if usage["llm_calls"] else "—"
    calls = usage["embedding_calls"]
    embed = f"{usage['embedding_tokens']:,} tokens ({calls} calls)" if calls else "—"
    return f"LLM: {llm} | Embed: {embed}"


def outcome(result: OutcomeReport) -> str:
    counts = Counter(reason for _, reason in result.ignored)
    ignored = "; ".join(f"{counts[one]} {_REASONS[one]}" for one in sorted(counts))
    tail = f" Not scored: {ignored}." if ignored else ""
    if not result.updated:
        return f"Outcome recorded: nothing to update.{tail}"
    parts = [f"{_blocks(result.updated)} updated ({result.confidence_delta:+.3f} avg confidence)"]
    if result.edges_created:
        parts.append(f"{result.edges_created} outcome edges created")
    if result.edges_reinforced:
        parts.append(f"{result.edges_reinforced} edges reinforced")
    if result.decay_change_count:
        parts.append(f"{_blocks(result.decay_change_count)} penalized")
    return f"Outcome recorded: {', '.join(parts)}.{tail}"


def curated(result: CurateReport) -> str:
    parts = []
    if result.archived:
        parts.append(f"{result.archived} archived")
    if result.edges_pruned:
        parts.append(f"{result.edges_pruned} edges pruned")
    if result.edges_decayed:
        left = f" ({result.edges_after} remain)" if result.edges_after else ""
        parts.append(f"{result.edges_decayed} edges decayed{left}")
    if result.reinforced:
        parts.append(f"{result.reinforced} reinforced")
    if result.constitutional:
        parts.append(f"{result.constitutional} constitutional reinforced")
    if not parts:
        return "Curated: nothing required."
    text = f"Curated: {', '.join(parts)}."
    if (
        result.edges_after
        and result.edges_decayed / (result.edges_decayed + result.edges_after) > 0.25
    ):
        text += " Tip: consider recall() to reactivate relevant knowledge clusters."
    return text


def dream_summary(result: DreamReport) -> str:
    remaining = f"{result.inbox_remaining} remaining, run dream() again to continue."
    if not result.processed:
        if result.timed_out:
            return f"Ran out of time, {remaining}"
        if result.inbox_remaining:
            return f"Nothing consolidated, {remaining}"
        return "Nothing to consolidate. Inbox was empty."
    parts = [f"{result.promoted} promoted"]
    if result.deduplicated:
        parts.append(f"{result.deduplicated} deduped")
    parts.append(f"{result.edges_created} edges")
    if result.near_duplicates:
        pairs = "pair" if result.near_duplicates == 1 else "pairs"
        parts.append(f"{result.near_duplicates} near-duplicate {pairs} kept and flagged")
    late = "ran out of time, " if result.timed_out else ""
    end = f" — {late}{remaining}" if result.inbox_remaining else "."
    return f"Consolidated {result.processed}: {', '.join(parts)}{end}"


def connected(source: str, target: str, result: ConnectionResult) -> str:
    edge = result.edge
    text = (
        f"{result.action.title()} {edge.relation} edge: {source[:8]}…→{target[:8]}…"
        f" (weight={edge.weight:.2f})."
    )
    if result.replaced is not None:
        text += (
            f" Displaced auto-{result.replaced.relation} edge"
            f" (weight={result.replaced.weight:.2f}) to fit degree cap."
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


def listed(ids: Sequence[str], *, nothing: str) -> str:
    return f"{_blocks(len(ids))}." if ids else nothing


def _blocks(count: int) -> str:
    return f"{count} block{'' if count == 1 else 's'}"
