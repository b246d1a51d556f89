"""One-line summaries of results: the texts of elfmem's command line."""

from collections import Counter
from collections.abc import Sequence

from memsvc.store.edges import Edge
from memsvc.styles.knowledge.curating import Curated
from memsvc.styles.knowledge.dreaming import Dreamt
from memsvc.styles.knowledge.linking import Connected
from memsvc.styles.knowledge.outcomes import Learnt
from memsvc.styles.knowledge.recall import Recalled
from memsvc.styles.knowledge.remembering import Remembered
from memsvc.styles.knowledge.standing import Standing

IDLE = "No pending blocks to consolidate"
_SKIPPED = {
    "constitutional": "constitutional (identity is not judged by task outcomes)",
    "pending_inbox": "still in the inbox — NOT recorded; run dream(), then send the signal again",
    "archived": "archived",
    "unmatched": "unmatched",
}


def remembered(done: Remembered) -> str:
    short = done.block_id[:8]
    if done.status == "created":
        return f"Stored block {short}. Status: created."
    return f"Duplicate — block {short} already exists."


def recalled(done: Recalled) -> str:
    count = len(done.blocks)
    if not count and not done.dropped:
        if done.excluded:
            return (
                f"{done.frame} frame: no blocks found — {done.excluded} excluded by this frame's tag filter. Identity"
                " blocks belong to the self frame; if you expected knowledge here, none matched."
            )
        return f"{done.frame} frame: no blocks found."
    text = f"{done.frame} frame: {count} block{'' if count == 1 else 's'} returned"
    text += " (cached)" if done.cached else ""
    text += f", {done.rendered.used_tok}/{done.budget_tok} tokens"
    if done.dropped:
        counts = Counter(reason for _, reason in done.dropped)
        text += f" — {len(done.dropped)} dropped ({', '.join(f'{counts[one]} {one}' for one in sorted(counts))})"
    return text + "."


def status(now: Standing) -> str:
    session = "inactive" if now.session_h is None else f"active ({now.session_h:.1f}h)"
    counts = f"Inbox: {now.inbox}/{now.threshold} | Active: {now.active} blocks"
    return "\n".join(
        [
            f"Session: {session} | {counts} | Health: {now.health}",
            f"Tokens this session: {tokens(now.session_tokens)}",
            f"Suggestion: {now.suggestion}",
        ]
    )


def tokens(spent: dict[str, int]) -> str:
    if not any(spent.values()):
        return "no token usage recorded"
    said = spent["llm_input_tokens"] + spent["llm_output_tokens"]
    llm = f"{said:,} tokens ({spent['llm_calls']} calls)" if spent["llm_calls"] else "—"
    calls = spent["embedding_calls"]
    embed = f"{spent['embedding_tokens']:,} tokens ({calls} calls)" if calls else "—"
    return f"LLM: {llm} | Embed: {embed}"


def outcome(done: Learnt) -> str:
    counts = Counter(reason for _, reason in done.skipped)
    skipped = "; ".join(f"{counts[one]} {_SKIPPED[one]}" for one in sorted(counts))
    tail = f" Not scored: {skipped}." if skipped else ""
    if not done.updated:
        return f"Outcome recorded: nothing to update.{tail}"
    parts = [f"{_blocks(done.updated)} updated ({done.confidence_delta:+.3f} avg confidence)"]
    if done.edges_created:
        parts.append(f"{done.edges_created} outcome edges created")
    if done.edges_reinforced:
        parts.append(f"{done.edges_reinforced} edges reinforced")
    if done.penalised:
        parts.append(f"{_blocks(done.penalised)} penalized")
    return f"Outcome recorded: {', '.join(parts)}.{tail}"


def curated(done: Curated) -> str:
    parts = []
    if done.archived:
        parts.append(f"{done.archived} archived")
    if done.edges_pruned:
        parts.append(f"{done.edges_pruned} edges pruned")
    if done.edges_decayed:
        left = f" ({done.edges_after} remain)" if done.edges_after else ""
        parts.append(f"{done.edges_decayed} edges decayed{left}")
    if done.reinforced:
        parts.append(f"{done.reinforced} reinforced")
    if done.constitutional:
        parts.append(f"{done.constitutional} constitutional reinforced")
    if not parts:
        return "Curated: nothing required."
    text = f"Curated: {', '.join(parts)}."
    if done.edges_after and done.edges_decayed / (done.edges_decayed + done.edges_after) > 0.25:
        text += " Tip: consider recall() to reactivate relevant knowledge clusters."
    return text


def dreamt(done: Dreamt) -> str:
    if not done.processed:
        left = f" ({done.inbox_remaining} remaining)" if done.inbox_remaining else ""
        return f"Nothing to consolidate. Inbox was empty{left}."
    parts = [f"{done.promoted} promoted"]
    if done.deduplicated:
        parts.append(f"{done.deduplicated} deduped")
    parts.append(f"{done.edges_created} edges")
    if done.near_duplicates:
        pairs = "pair" if done.near_duplicates == 1 else "pairs"
        parts.append(f"{done.near_duplicates} near-duplicate {pairs} kept and flagged")
    end = f" — {done.inbox_remaining} remaining, run dream() again to continue." if done.inbox_remaining else "."
    return f"Consolidated {done.processed}: {', '.join(parts)}{end}"


def connected(source: str, target: str, done: Connected) -> str:
    edge = done.edge
    text = f"{done.action.title()} {edge.relation} edge: {source[:8]}…→{target[:8]}… (weight={edge.weight:.2f})."
    if done.displaced is not None:
        text += (
            f" Displaced auto-{done.displaced.relation} edge (weight={done.displaced.weight:.2f}) to fit degree cap."
        )
    return text


def disconnected(source: str, target: str, action: str, edge: Edge | None) -> str:
    if edge is not None:
        return f"Removed {edge.relation} edge: {source[:8]}…→{target[:8]}… (was weight={edge.weight:.2f})."
    if action == "guarded":
        return "Edge not removed — relation type did not match guard_relation."
    return f"No edge found between {source[:8]}… and {target[:8]}…"


def listed(ids: Sequence[str], *, nothing: str) -> str:
    return f"{_blocks(len(ids))}." if ids else nothing


def _blocks(count: int) -> str:
    return f"{count} block{'' if count == 1 else 's'}"
