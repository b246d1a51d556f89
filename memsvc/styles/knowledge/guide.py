"""Guide to these operations for agents."""

from typing import Final

from memsvc.core.frozen import frozen


@frozen
class GuideEntry:
    """Guide to one operation."""

    what: str
    when: str
    when_not: str
    cost: str
    returns: str
    following: str
    example: str
    short: str

    def card(self, name: str) -> str:
        """Return the guide as a card."""
        lines = "\n".join(f"    {line}" for line in self.example.splitlines())
        return (
            f"elfmem.{name}()\n"
            f"  What:       {self.what}\n"
            f"  Use when:   {self.when}\n"
            f"  Don't use:  {self.when_not}\n"
            f"  Cost:       {self.cost}\n"
            f"  Returns:    {self.returns}\n"
            f"  Next:       {self.following}\n"
            f"  Example:\n{lines}"
        )


ENTRIES: Final[dict[str, GuideEntry]] = {
    "remember": GuideEntry(
        "Store a fact, preference, decision or observation. It can be recalled at once.",
        "You learn something that is worth keeping beyond this conversation.",
        "The text is a transcript or a file: use other tools for these.",
        "Instant. No model.",
        "block_id, status (created or duplicate_rejected), visible, pending_consolidation,"
        " should_dream.",
        "dream() when should_dream is true, or wait for consolidation in the background.",
        "elfmem_remember(content='The staging database is read-only.', tags=['database'],\n "
        "               cue='why does a migration fail on staging')",
        "Store knowledge for later; it is visible at once",
    ),
    "recall": GuideEntry(
        "Find blocks and render them for a prompt. Blocks that are shown are reinforced.",
        "Before you answer or act. Use the frame attention for a question, task for goals,"
        " self for who you are, and simulate for how somebody else thinks.",
        "You want to look through all blocks: use ls().",
        "Fast. One call to the embedder, if there is one.",
        "Text for the prompt, blocks with ids and scores, and dropped blocks with reasons.",
        "outcome() with the ids of the blocks that you used.",
        "elfmem_recall(query='how do we deploy', top_k=5, frame='attention')",
        "Find knowledge, rendered for a prompt",
    ),
    "status": GuideEntry(
        "Show the state of memory, with a suggestion of what to do next.",
        "You are not sure whether to call dream() or curate().",
        "Before every call: remember() and recall() do not need it.",
        "Instant. No model.",
        "Counts, total active hours, health, a suggestion, and token usage.",
        "Follow the suggestion.",
        "elfmem_status()",
        "State of memory and what to do next",
    ),
    "outcome": GuideEntry(
        "Record how well recalled blocks worked, so that good ones are trusted more and bad"
        " ones fade.",
        "You know whether the recalled blocks helped: a test passed, the user was satisfied.",
        "You have only read the blocks, or they are still in the inbox.",
        "Instant. No model.",
        "How many blocks were updated and by how much; which blocks were skipped and why.",
        "Nothing. The next recall uses the outcome for ranking.",
        "elfmem_outcome(block_ids=['3f2a...'], signal=0.9, source='test_pass')",
        "Record whether recalled blocks helped",
    ),
    "curate": GuideEntry(
        "Archive blocks that have faded, prune weak edges, reinforce the strongest blocks.",
        "Recall returns outdated blocks. Curation also runs automatically after a consolidation.",
        "After every session: curation is only due every 40 active hours.",
        "Fast. No model.",
        "How many blocks and edges were archived, pruned and reinforced.",
        "status()",
        "elfmem_curate()",
        "Archive faded blocks, keep strong ones",
    ),
    "dream": GuideEntry(
        "Consolidate the inbox: find duplicates and contradictions, rate how well blocks fit"
        " your identity, connect related blocks.",
        "At a natural pause, when should_dream is true.",
        "To make a block visible: blocks are visible at once.",
        "A model call for each block, if there is a model.",
        "Numbers of promoted and deduplicated blocks, edges, contradictions, and blocks"
        " still in the inbox.",
        "dream() again while inbox_remaining is above 0.",
        "elfmem_dream()",
        "Consolidate the inbox",
    ),
    "edit": GuideEntry(
        "Change the text of a block, or the cue by which it is found.",
        "A block is wrong or outdated, but its confidence and edges should be kept.",
        "The new text is a different fact: remember() it instead.",
        "Instant. No model.",
        "block_id.",
        "Nothing. The next recall shows the new text.",
        "elfmem_edit(block_id='3f2a...', content='Prefers tabs.')",
        "Change a block or its cue",
    ),
    "forget": GuideEntry(
        "Forget a block for good: its text is deleted.",
        "The block is wrong, private, or no longer wanted.",
        "The block should only matter less: record a bad outcome() instead.",
        "Instant. No model.",
        "block_id, status (forgotten or already_archived).",
        "Nothing. The block is never recalled again.",
        "elfmem_forget(block_id='3f2a...')",
        "Delete a block for good",
    ),
    "ls": GuideEntry(
        "List blocks by tag or category, most confident first.",
        "You want to see which blocks exist.",
        "You have a question: recall() ranks blocks.",
        "Instant. No model.",
        "result: blocks with id, content, category, tags.",
        "edit() or forget() wrong blocks.",
        "elfmem_ls(tag='self/%')",
        "List blocks",
    ),
    "inbox": GuideEntry(
        "List the blocks waiting to be consolidated.",
        "You want to see which blocks dream() will process.",
        "You want to recall these blocks: recall() already finds them.",
        "Instant. No model.",
        "result: blocks, oldest first.",
        "dream()",
        "elfmem_inbox()",
        "List blocks waiting to be consolidated",
    ),
    "connect": GuideEntry(
        "State that two blocks are related: a question that finds one also finds the other.",
        "You know that blocks are related although their words do not show it.",
        "The blocks are merely similar: dream() detects that.",
        "Instant. No model.",
        "The edge, and the action: created, reinforced, updated or skipped.",
        "disconnect() if the connection was wrong.",
        "elfmem_connect(source='3f2a...', target='77b0...', relation='supports')",
        "Connect two related blocks",
    ),
    "disconnect": GuideEntry(
        "Remove the edge between two blocks.",
        "The edge is wrong, or makes recall() return unrelated blocks.",
        "The edge is only weak: curate() prunes it.",
        "Instant. No model.",
        "action: removed, not_found, or guarded (the edge has a different relation).",
        "Nothing.",
        "elfmem_disconnect(source='3f2a...', target='77b0...')",
        "Remove an edge",
    ),
    "guide": GuideEntry(
        "Show this help.",
        "You are not sure which operation fits.",
        "You know which operation fits.",
        "Instant. No model.",
        "Text.",
        "The operation that you chose.",
        "elfmem_guide(method='remember')",
        "This help",
    ),
}
HISTORY: Final = GuideEntry(
    "List recent operations. This memory has no such tool: use the server's call log, which"
    " lists the calls without content.",
    "Something behaves unexpectedly, and you want to know which calls ran.",
    "You want to know which blocks are stored: use ls().",
    "Instant. No model.",
    "Time, tool and outcome of each call, newest first.",
    "Nothing.",
    "calls_list(limit=10)  # with an admin key; in a shell: memsvc calls",
    "",
)
"""Operation of elfmem's library that is not one here."""
ALIASES: Final = {"learn": "remember", "frame": "recall", "consolidate": "dream"}
"""Names of the same operations in elfmem's library."""

_SIGNATURES: Final = {
    "remember": "remember(content, ...)",
    "recall": "recall(query, ...)",
    "outcome": "outcome(ids, signal)",
    "edit": "edit(id, ...)",
    "forget": "forget(id)",
    "ls": "ls(tag?, ...)",
    "connect": "connect(a, b, ...)",
    "disconnect": "disconnect(a, b)",
    "guide": "guide(method?)",
}


def is_operation(method: str) -> bool:
    """Return whether there is a card for an operation of this name."""
    name = method.removeprefix("elfmem_")
    return name == "history" or ALIASES.get(name, name) in ENTRIES


def guide(method: str | None) -> str:
    """Return the card of an operation, or the overview.

    The name may begin with `elfmem_`. For an unknown name, the valid names are returned.
    """
    if method is None:
        return _overview()
    if is_operation(method):
        name = method.removeprefix("elfmem_")
        entry = HISTORY if name == "history" else ENTRIES[ALIASES.get(name, name)]
        return entry.card(name)
    valid = ", ".join(f"'{one}'" for one in sorted({*ENTRIES, *ALIASES, "history"}))
    return f"Unknown method '{method}'. Valid methods: {valid}."


def _overview() -> str:
    rows = [
        f"  {_SIGNATURES.get(name, f'{name}()'):<23}{_short_cost(entry.cost):<13}{entry.short}"
        for name, entry in ENTRIES.items()
    ]
    return "\n".join(
        [
            "elfmem — adaptive memory for LLM agents",
            "Call elfmem_guide(method='name') for detailed help on any operation.",
            "",
            "  Operation              Cost         Description",
            f"  {'─' * 69}",
            *rows,
            "",
            (
                "Lifecycle:      remember → recall → outcome; dream at a pause; curate runs"
                " automatically"
            ),
            (
                "Quick start:    elfmem_remember(content='...') | elfmem_recall(query='...') |"
                " elfmem_status()"
            ),
        ]
    )


def _short_cost(cost: str) -> str:
    return "LLM call" if cost.startswith("A model") else cost.split(".", 1)[0]
