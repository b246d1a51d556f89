"""Progress reports of a call."""

from typing import Final, Protocol


class Progress(Protocol):
    """Receiver of the progress of a slow tool, whether a client listens or not."""

    def report(self, done: float, total: float | None = None, doing: str | None = None) -> None:
        """Report that `done` of `total`, where known, is finished.

        `doing` is a fixed phrase, never content.

        `done` only grows. Returns at once and never fails."""
        ...


class _Silent:
    """A receiver that ignores reports."""

    def report(self, done: float, total: float | None = None, doing: str | None = None) -> None:
        del done, total, doing


SILENT: Final[Progress] = _Silent()
"""For calls whose callers did not request progress."""
