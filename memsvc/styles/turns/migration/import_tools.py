"""The tool that imports a session, for clients that reach this service over HTTP alone."""

from typing import Annotated, Any

from anyio import to_thread
from pydantic import BeforeValidator

from memsvc.core.errors import invalid
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import result, tool
from memsvc.core.tools import ProgressCallback
from memsvc.styles.turns.migration import legacy
from memsvc.styles.turns.migration.session_import import ImportReport, SessionImport
from memsvc.styles.turns.turn_models import DEFAULT_SESSION, SessionId

FILES_MAX = 200


def _checked_files(value: Any) -> Any:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise invalid("files must be an object of texts by the names of their files")
    if not 0 < len(value) <= FILES_MAX:
        raise invalid(f"files must hold 1 to {FILES_MAX} files")
    return {legacy.check_name(name): text for name, text in value.items()}


@result
class SessionImportResult:
    ok: Annotated[bool, "true: what could be read is in memory"]
    counts: Annotated[
        dict[str, int], "what was imported, was here already, or was left out, by kind"
    ]
    broken: Annotated[list[legacy.InvalidRecord], "the first places that could not be read"]
    broken_count: Annotated[int, "how many places could not be read"]
    conflicts: Annotated[
        list[str], "turns that are here with other items; they were left as they are"
    ]
    unknown_files: Annotated[list[str], "files that are none of a session's"]


def import_result(report: ImportReport) -> SessionImportResult:
    """Return the result of an import."""
    return SessionImportResult(
        True,
        dict(sorted((+report.counts).items())),
        report.broken[: legacy.REPORT_LIMIT],
        len(report.broken),
        report.conflicts,
        report.unknown,
    )


def _parse_files(files: dict[str, str]) -> legacy.LegacyRecords:
    return legacy.read({name: text.encode("utf-8", "replace") for name, text in files.items()})


class ImportTools:
    """The tool that imports a session."""

    def __init__(self, session_import: SessionImport) -> None:
        self._session_import = session_import

    @tool(
        "memory_import_session",
        title="Import a session",
        needs=Permission.WRITE,
        toolset="turns",
        idempotent=True,
        logs=("session_id",),
    )
    async def run(
        self,
        scope: Scope,
        progress: ProgressCallback,
        *,
        session_id: SessionId = DEFAULT_SESSION,
        files: Annotated[
            dict[str, str],
            BeforeValidator(_checked_files),
            "the session's files by their paths within it, such as log.jsonl or"
            " events/raw/2026/01/05/...jsonl",
        ],
        dry_run: Annotated[bool, "only say what would be imported"] = False,
    ) -> SessionImportResult:
        """Bring in a session that a client kept itself.

        Give the text of its files: the canonical layout, or log.jsonl, context.jsonl,
        memory_facts.jsonl, meta.json. Importing twice changes nothing."""
        records = await to_thread.run_sync(_parse_files, files)
        turns = 0

        def add_progress(more: int) -> None:
            nonlocal turns
            turns += more
            progress.report(turns, step="turns")

        return import_result(
            await self._session_import.run(
                scope, session_id, records, dry_run=dry_run, on_progress=add_progress
            )
        )
