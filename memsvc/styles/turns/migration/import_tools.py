"""The tool that imports a session, for clients that reach this service over HTTP alone."""

from typing import Any

from anyio import to_thread
from pydantic import Field, field_validator

from memsvc.core.errors import invalid
from memsvc.core.progress import ProgressCallback
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import ProgressFunction, Result, Tool
from memsvc.styles.turns.migration import legacy
from memsvc.styles.turns.migration.session_import import ImportReport, SessionImport
from memsvc.styles.turns.turn_models import SessionArguments

FILES_MAX = 200


class SessionImportArguments(SessionArguments):
    files: dict[str, str] = Field(
        description="the session's files by their paths within it, such as log.jsonl or"
        " events/raw/2026/01/05/...jsonl"
    )
    dry_run: bool = Field(False, description="only say what would be imported")

    @field_validator("files", mode="before")
    @classmethod
    def _files(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise invalid("files must be an object of texts by the names of their files")
        if not 0 < len(value) <= FILES_MAX:
            raise invalid(f"files must hold 1 to {FILES_MAX} files")
        return {legacy.check_name(name): text for name, text in value.items()}


class ImportIssue(Result):
    file: str = Field(description="the file")
    line: int = Field(description="the line, counted from 1; 0 for the whole file")
    why: str = Field(description="why it could not be read")


class SessionImportResult(Result):
    ok: bool = Field(description="true: what could be read is in memory")
    counts: dict[str, int] = Field(
        description="what was imported, was here already, or was left out, by kind"
    )
    broken: list[ImportIssue] = Field(description="the first places that could not be read")
    broken_count: int = Field(description="how many places could not be read")
    conflicts: list[str] = Field(
        description="turns that are here with other items; they were left as they are"
    )
    unknown_files: list[str] = Field(description="files that are none of a session's")


def import_result(report: ImportReport) -> SessionImportResult:
    """Return the result of an import."""
    return SessionImportResult(
        ok=True,
        counts=dict(sorted((+report.counts).items())),
        broken=[
            ImportIssue(file=issue.file, line=issue.line, why=issue.why)
            for issue in report.broken[: legacy.REPORT_LIMIT]
        ],
        broken_count=len(report.broken),
        conflicts=report.conflicts,
        unknown_files=report.unknown,
    )


def _parse_files(files: dict[str, str]) -> legacy.LegacyRecords:
    return legacy.read({name: text.encode("utf-8", "replace") for name, text in files.items()})


def import_tools(session_import: SessionImport) -> list[Tool]:
    """Return the import tool."""

    async def import_session(
        scope: Scope, args: SessionImportArguments, progress: ProgressCallback
    ) -> SessionImportResult:
        records = await to_thread.run_sync(_parse_files, args.files)
        turns = 0

        def add_progress(more: int) -> None:
            nonlocal turns
            turns += more
            progress.report(turns, step="turns")

        return import_result(
            await session_import.run(
                scope, args.session_id, records, dry_run=args.dry_run, on_progress=add_progress
            )
        )

    return [
        Tool(
            name="memory_import_session",
            title="Import a session",
            description=(
                "Bring in a session that a client kept itself: give the text of its files (event"
                " logs, facts, state; the canonical layout or log.jsonl, context.jsonl,"
                " memory_facts.jsonl, meta.json). Importing twice changes nothing."
            ),
            arguments=SessionImportArguments,
            result=SessionImportResult,
            run=ProgressFunction(import_session),
            permission=Permission.WRITE,
            read_only=False,
            idempotent=True,
            logged=frozenset({"project", "session_id"}),
        )
    ]
