"""Tools that write the notebook: update_document and others."""

from typing import Any, Final

from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Tool
from memsvc.styles.notebook.documents import DocumentSplit, DocumentWrite, NotebookDocuments
from memsvc.styles.notebook.notebook_models import (
    LOGGED,
    DocumentPart,
    EditDocumentArguments,
    MoveDocumentArguments,
    RestoreDocumentArguments,
    SplitDocumentArguments,
    SplitDocumentResult,
    UpdateDocumentArguments,
    WriteDocumentResult,
)
from memsvc.styles.notebook.options import NotebookOptions

PREVIEW_CHARS: Final = 120
_COMMON: Final[dict[str, Any]] = {
    "permission": Permission.WRITE,
    "read_only": False,
    "idempotent": False,
    "logged": LOGGED,
    "text_member": "text",
    "protocol_errors": True,
}


class NotebookWriteTools:
    """Functions behind these tools."""

    def __init__(self, documents: NotebookDocuments, options: NotebookOptions) -> None:
        self._documents = documents
        self._options = options

    async def update(self, scope: Scope, args: UpdateDocumentArguments) -> WriteDocumentResult:
        return self._write_result(
            await self._documents.update(
                scope, args.id, args.content, expected_version=args.expected_version
            )
        )

    async def edit(self, scope: Scope, args: EditDocumentArguments) -> WriteDocumentResult:
        return self._write_result(
            await self._documents.edit(
                scope, args.id, args.old_text, args.new_text, expected_version=args.expected_version
            )
        )

    async def move(self, scope: Scope, args: MoveDocumentArguments) -> WriteDocumentResult:
        return self._write_result(
            await self._documents.move(
                scope,
                args.id,
                args.parent,
                old_parent_content=args.old_parent_content,
                new_parent_content=args.new_parent_content,
            )
        )

    async def restore(self, scope: Scope, args: RestoreDocumentArguments) -> WriteDocumentResult:
        return self._write_result(
            await self._documents.restore(
                scope, args.id, args.version, expected_version=args.expected_version
            )
        )

    async def split(self, scope: Scope, args: SplitDocumentArguments) -> SplitDocumentResult:
        split = await self._documents.split(scope, args.id, apply=args.apply)
        written = split.written
        return SplitDocumentResult(
            text=_split_text(split),
            id=split.document,
            applied=written is not None and bool(split.parts),
            content=split.text,
            parts=[
                DocumentPart(id=name, size_bytes=len(text.encode()), beginning=text[:PREVIEW_CHARS])
                for name, text in split.parts.items()
            ],
            created=list(written.created) if written is not None else [],
            version=written.version if written is not None else None,
        )

    def _write_result(self, written: DocumentWrite) -> WriteDocumentResult:
        lines = ["Succeeded"]
        if written.created:
            lines.append("Created: " + ", ".join(written.created))
        if written.removed:
            lines.append("Removed: " + ", ".join(written.removed))
        note = None
        if written.size_bytes > self._options.oversized_bytes:
            note = (
                f"this document holds {written.size_bytes} bytes; split_document says how it"
                " can be cut up"
            )
            lines.append("Note: " + note)
        return WriteDocumentResult(
            text="\n".join(lines),
            id=written.document,
            created=list(written.created),
            removed=list(written.removed),
            version=written.version,
            note=note,
        )


def _split_text(split: DocumentSplit) -> str:
    if not split.parts:
        return "Nothing to split: it has no two headings of one level, and is not too long"
    if split.written is not None:
        return "Succeeded\nCreated: " + ", ".join(split.written.created)
    parts = "".join(f"- {name}: {len(text.encode())} bytes\n" for name, text in split.parts.items())
    return f"It would be cut into these documents:\n{parts}and hold:\n\n{split.text}"


def writing_tools(documents: NotebookDocuments, options: NotebookOptions) -> list[Tool]:
    """Return these tools."""
    functions = NotebookWriteTools(documents, options)
    return [
        Tool(
            name="update_document",
            title="Write a document of the notebook",
            description="Replace all that a document of the notebook holds; without id, the root,"
            " which should hold all that matters most. The document must exist. Only [[id]]"
            " in the text of another document makes one: each document is linked by exactly"
            " one other, and those below it never link back. A document that nothing links"
            " any more is removed with all below it, and the answer says so; link it again"
            " and call document_history and restore_document to bring its text back. Split a"
            " topic out only when it is too large or complex, and keep the tree shallow.",
            arguments=UpdateDocumentArguments,
            result=WriteDocumentResult,
            run=functions.update,
            **_COMMON | {"idempotent": True},
        ),
        Tool(
            name="edit_document",
            title="Edit a document of the notebook",
            description="Replace one text in a document of the notebook, which must stand there"
            " exactly once. Links make and remove documents as with update_document.",
            arguments=EditDocumentArguments,
            result=WriteDocumentResult,
            run=functions.edit,
            **_COMMON,
        ),
        Tool(
            name="move_document",
            title="Move a document of the notebook",
            description="Put a document of the notebook, with all below it, below another one:"
            " the link to it goes from the text of the one to the end of the other.",
            arguments=MoveDocumentArguments,
            result=WriteDocumentResult,
            run=functions.move,
            **_COMMON,
        ),
        Tool(
            name="split_document",
            title="Split a document of the notebook",
            description="Say how a long document of the notebook can be cut, by its headings or"
            " else its paragraphs, into documents below it; with apply, do it.",
            arguments=SplitDocumentArguments,
            result=SplitDocumentResult,
            run=functions.split,
            **_COMMON,
        ),
        Tool(
            name="restore_document",
            title="Restore a document of the notebook",
            description="Let a document of the notebook hold again what it held at a version of"
            " document_history. One that was removed must be linked again before.",
            arguments=RestoreDocumentArguments,
            result=WriteDocumentResult,
            run=functions.restore,
            destructive=True,
            **_COMMON,
        ),
    ]
