"""The tool that searches files: file_search."""

from pydantic import Field, field_validator

from memsvc.core.paths import check_path, check_project
from memsvc.core.scope import ALL_PROJECTS, Permission, Scope
from memsvc.core.tools import Result, Tool
from memsvc.styles.files.file_models import LOGGED, FileArguments
from memsvc.styles.files.search import FileSearch, SearchHit


class FileSearchArguments(FileArguments):
    project: str = Field(description="the project to search, or * for all of your projects")
    query: str = Field(description="what is asked: words, or a sentence")
    path_prefix: str = Field(
        "", description="search only the file or directory at this path, such as /notes"
    )
    limit: int | None = Field(None, description="passages at the most; 20 if not given, 20 at most")

    @field_validator("project")
    @classmethod
    def _project(cls, value: str) -> str:
        return value.strip() if value.strip() == ALL_PROJECTS else check_project(value.strip())

    @field_validator("path_prefix")
    @classmethod
    def _path_prefix(cls, value: str) -> str:
        return check_path(value.removesuffix("/"))


class FileChunk(Result):
    project: str | None = Field(
        None,
        description="its project, when several were searched",
        exclude_if=lambda value: value is None,
    )
    file_path: str = Field(description="the file that it is in")
    file_seek_start_bytes: int = Field(description="its first byte in the file")
    file_seek_end_bytes: int = Field(description="the byte after its last")
    is_full_file: bool = Field(description="whether it is all that the file holds")
    chunk_content: str = Field(description="its text")
    score: float = Field(description="how well it answers; comparable within one answer only")
    file_summary: str = Field(description="what the file is about, in a paragraph")


class FileSearchResult(Result):
    chunks: list[FileChunk] = Field(description="best first; empty when nothing matches")


class FileSearchTools:
    """Function of the search tool."""

    def __init__(self, search: FileSearch) -> None:
        self._search = search

    async def search(self, scope: Scope, args: FileSearchArguments) -> FileSearchResult:
        found = await self._search.find(scope, args.query, path=args.path_prefix, limit=args.limit)
        return FileSearchResult(chunks=[_chunk(hit) for hit in found])


def _chunk(hit: SearchHit) -> FileChunk:
    return FileChunk(
        project=hit.project,
        file_path=hit.passage.path,
        file_seek_start_bytes=hit.passage.start,
        file_seek_end_bytes=hit.passage.end,
        is_full_file=hit.passage.whole,
        chunk_content=hit.passage.text,
        score=hit.score,
        file_summary=hit.summary,
    )


def search_tools(search: FileSearch) -> list[Tool]:
    """Return the search tool."""
    return [
        Tool(
            name="file_search",
            title="Search files",
            description="Find passages of files by words and, where an embedder is configured, by"
            " meaning.",
            arguments=FileSearchArguments,
            result=FileSearchResult,
            run=FileSearchTools(search).search,
            permission=Permission.READ,
            read_only=True,
            idempotent=True,
            logged=LOGGED,
            spans_projects=True,
        )
    ]
