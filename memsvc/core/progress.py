"""Progress reports of a call."""

from typing import Final, Protocol


class ProgressCallback(Protocol):
    """Receiver of the progress of a slow tool, whether a client listens or not."""

    def report(self, done: float, total: float | None = None, step: str | None = None) -> None:
        """Report that `done` of `total`, where known, is finished.

        `step` is a fixed phrase, never content.

        `done` only grows. Returns at once and never fails."""
        ...


class _Silent:
    """A receiver that ignores reports."""

    def report(self, done: float, total: float | None = None, step: str | None = None) -> None:
        del done, total, step


SILENT: Final[ProgressCallback] = _Silent()
"""For calls whose callers did not request progress."""
