"""Limits of a project's files."""

from pydantic import Field

from memsvc.core.options import Options


class SearchOptions(Options):
    """Options of file search."""

    enabled: bool = Field(
        True, description="whether file_search is enabled; files are indexed in any case"
    )
    limit_default: int = Field(20, ge=1, le=100, description="default number of passages")
    limit_max: int = Field(20, ge=1, le=100, description="maximum number of passages")
    candidates: int = Field(
        100,
        ge=10,
        le=1000,
        description="number of best passages by words and by meaning that are compared",
    )
    reranked: int = Field(
        50,
        ge=1,
        le=1000,
        description="number of best passages that a reranker, if configured, reorders",
    )
    semantic_weight: float = Field(
        0.3, ge=0, le=1, description="weight of meaning against words in a passage's score"
    )


class SummaryOptions(Options):
    """Options of file summaries.

    Without a model, a summary is taken from the beginning of the file."""

    enabled: bool = Field(True, description="whether the model, if there is one, summarises files")
    a_day: int = Field(
        1000,
        ge=0,
        le=2**31 - 1,
        description="files that a model summarises per day and tenant; 0: unlimited",
    )


class FilesOptions(Options):
    """Limits of the file store, in bytes and entries."""

    payload_bytes_max: int = Field(
        2_000_000, ge=1, description="maximum content of one write, in bytes"
    )
    file_bytes_max: int = Field(
        10_000_000, ge=1, le=2**30, description="maximum size of a file, in bytes"
    )
    project_bytes_max: int = Field(
        100_000_000,
        ge=1,
        description="maximum size of all files in a project that callers wrote, in bytes",
    )
    tenant_bytes_max: int = Field(
        0,
        ge=0,
        description="maximum size of all files of a tenant that callers wrote, in bytes; 0:"
        " unlimited",
    )
    versions_kept: int = Field(
        3, ge=0, le=10_000, description="past versions of a caller's file that are always kept"
    )
    versions_days: int = Field(
        7, ge=0, le=36500, description="days that a past version is kept after it was replaced"
    )
    delete_retention_days: int = Field(
        30, ge=0, le=36500, description="days until a deleted file's content is purged"
    )
    list_limit_default: int = Field(
        256, ge=1, le=1024, description="default number of entries in a listing"
    )
    list_limit_max: int = Field(
        1024, ge=1, le=10_000, description="maximum number of entries in a listing"
    )
    search: SearchOptions = Field(SearchOptions(), description="file search")
    summaries: SummaryOptions = Field(
        SummaryOptions(), description="file summaries by a model, if there is one"
    )
