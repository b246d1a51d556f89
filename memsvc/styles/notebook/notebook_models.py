"""Arguments and results of the notebook tools."""

from datetime import datetime
from typing import Final

from pydantic import Field

from memsvc.core.tools import Arguments, Result, Version
from memsvc.styles.notebook.links import ROOT
from memsvc.styles.notebook.notebook_reader import HISTORY_LIMIT, HISTORY_LIMIT_MAX

LOGGED: Final = frozenset({"project", "id", "parent", "version", "expected_version"})


class DocumentArguments(Arguments):
    """Arguments of tools about one document."""

    id: str = Field(ROOT, description="the document; root is the main one")


class ReadDocumentArguments(DocumentArguments):
    version: Version | None = Field(
        None, description="what it was at this version, from document_history"
    )


class ReadDocumentResult(Result):
    id: str = Field(description="the document")
    text: str = Field(description="all it holds, in Markdown")
    version: str | None = Field(
        description="expected_version of the tools that write; null while nobody has written the"
        " notebook"
    )


class UpdateDocumentArguments(DocumentArguments):
    content: str = Field(description="all that the document holds from now on, in Markdown")
    expected_version: Version | None = Field(
        None, description="write only if the document is still at this version"
    )


class EditDocumentArguments(DocumentArguments):
    old_text: str = Field(
        min_length=1, description="what goes: must stand in the document exactly once"
    )
    new_text: str = Field(description="what comes in its place")
    expected_version: Version | None = Field(
        None, description="write only if the document is still at this version"
    )


class RestoreDocumentArguments(DocumentArguments):
    version: Version = Field(description="the version, from document_history")
    expected_version: Version | None = Field(
        None, description="write only if the document is still at this version"
    )


class MoveDocumentArguments(Arguments):
    id: str = Field(description="the document that moves, with all below it")
    parent: str = Field(description="the document that it is below from now on")
    old_parent_content: str | None = Field(
        None,
        description="all that the old parent holds from now on; not given: what it holds, without"
        " the link",
    )
    new_parent_content: str | None = Field(
        None,
        description="all that the new parent holds from now on; not given: what it holds, and the"
        " link",
    )


class WriteDocumentResult(Result):
    text: str = Field(description="Succeeded, and what was created or removed with it, a line each")
    id: str = Field(description="the document")
    created: list[str] = Field(description="documents that were made, as they are linked now")
    removed: list[str] = Field(
        description="documents that were removed, as nothing links them any more"
    )
    version: str = Field(description="the version that the document is at now")
    note: str | None = Field(
        None, description="what might be done about a document that is very long"
    )


class SplitDocumentArguments(DocumentArguments):
    apply: bool = Field(
        False, description="whether to cut it up, instead of saying how it would be cut"
    )


class DocumentPart(Result):
    id: str = Field(description="the new document")
    size_bytes: int = Field(description="how much it holds")
    beginning: str = Field(description="its first characters")


class SplitDocumentResult(Result):
    text: str = Field(description="what was done, or would be")
    id: str = Field(description="the document")
    applied: bool = Field(description="whether it was cut up")
    content: str = Field(
        description="what the document holds then: what belongs to no part, and links to the parts"
    )
    parts: list[DocumentPart] = Field(description="the documents below it that its parts become")
    created: list[str] = Field(description="documents that were made")
    version: str | None = Field(
        None, description="the version that the document is at now, when it was cut up"
    )


class DocumentTreeArguments(Arguments):
    pass


class DocumentTreeResult(Result):
    text: str = Field(
        description="the tree in YAML: a document is a string, or a key over the list of those"
        " below it"
    )
    documents: int = Field(description="how many documents there are")


class DocumentHistoryArguments(DocumentArguments):
    limit: int = Field(
        HISTORY_LIMIT, ge=1, le=HISTORY_LIMIT_MAX, description="versions at the most"
    )
    cursor: Version | None = Field(None, description="next_cursor of the page before")


class DocumentVersion(Result):
    version: str = Field(description="what read_document and restore_document take")
    size_bytes: int = Field(description="how much it held")
    created_at: datetime = Field(description="when that was written")


class DocumentHistoryResult(Result):
    versions: list[DocumentVersion] = Field(
        description="newest first; what the document is now is none of them"
    )
    next_cursor: str | None = Field(None, description="cursor of the next page, when there is one")


class SearchDocumentsArguments(Arguments):
    query: str = Field(description="words, or a question")
    limit: int | None = Field(None, ge=1, le=100, description="passages at the most")


class FoundPassage(Result):
    id: str = Field(description="the document")
    text: str = Field(description="the passage")
    start_bytes: int = Field(description="where it begins in the document")
    end_bytes: int = Field(description="where it ends")
    score: float = Field(description="how well it fits; greater is better")


class SearchDocumentsResult(Result):
    passages: list[FoundPassage] = Field(description="best first")
