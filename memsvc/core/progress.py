"""How far a call has come, told to whoever waits for it."""

from typing import Final, Protocol


class Progress(Protocol):
    """Where a tool that takes long says how far it has come, whether anybody listens or not."""

    def report(self, done: float, total: float | None = None, doing: str | None = None) -> None:
        """So much is done, of so much in all where that is known, and what is done now: a fixed phrase, never content.
        `done` only grows. Returns at once and never fails."""
        ...


class _Silent:
    """Tells nobody."""

    def report(self, done: float, total: float | None = None, doing: str | None = None) -> None:
        del done, total, doing


SILENT: Final[Progress] = _Silent()
"""For calls whose callers did not ask to be told."""
