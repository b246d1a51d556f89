"""Health of a memory, and a suggestion: elfmem's status rules."""

from typing import Final, Literal

WARNING_SHARE: Final = 0.8
Health = Literal["good", "attention"]


def health(inbox: int, threshold: int, stored: int) -> tuple[Health, str]:
    """Return the health, and a suggestion."""
    fill = inbox / max(threshold, 1)
    if fill >= 1.0:
        return "attention", "Inbox full. Call elfmem_dream() to process pending blocks."
    if fill >= WARNING_SHARE:
        return "good", f"Inbox nearly full ({inbox}/{threshold}). Consolidation approaching."
    if not stored:
        return "good", "Memory is empty. Call elfmem_remember() to add knowledge."
    return "good", "Memory healthy. No action required."
