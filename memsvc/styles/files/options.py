"""Limits of a project's files."""

from pydantic import Field

from memsvc.core.options import Options


class SearchOptions(Options):
    """Options of file search."""

    enabled: bool = Field(
        True, description="whether file_search is there; what is written is indexed either way"
    )
    limit_default: int = Field(
        20, ge=1, le=100, description="passages of an answer when no limit is given"
    )
    limit_max: int = Field(20, ge=1, le=100, description="passages of an answer at the most")
    candidates: int = Field(
        100, ge=10, le=1000, description="best passages by words and by meaning that are compared"
    )
    reranked: int = Field(
        50,
        ge=1,
        le=1000,
        description="best passages that a reranker, if there is one, puts in order",
    )
    semantic_weight: float = Field(
        0.3, ge=0, le=1, description="share of meaning against words in a passage's score"
    )


class SummaryOptions(Options):
    """Options of file summaries.

    Without a model, summaries are made from the start of a file."""

    enabled: bool = Field(True, description="whether the model, if there is one, summarises files")
    a_day: int = Field(
        1000,
        ge=0,
        le=2**31 - 1,
        description="files that a model summarises a day for a tenant; 0: any",
    )


class FilesOptions(Options):
    """Limits of the file store, in bytes and entries."""

    payload_bytes_max: int = Field(2_000_000, ge=1, description="content of one write, in bytes")
    file_bytes_max: int = Field(10_000_000, ge=1, le=2**30, description="one file, in bytes")
    project_bytes_max: int = Field(
        100_000_000, ge=1, description="all files of a project that callers wrote, in bytes"
    )
    tenant_bytes_max: int = Field(
        0, ge=0, description="all such files of a tenant, in bytes; 0 is no limit"
    )
    versions_kept: int = Field(
        3, ge=0, le=10_000, description="past versions of a caller's file that are always kept"
    )
    versions_days: int = Field(
        7, ge=0, le=36500, description="days that a past version is kept after its last moment"
    )
    delete_retention_days: int = Field(
        30, ge=0, le=36500, description="days until a deleted file's content is purged"
    )
    list_limit_default: int = Field(
        256, ge=1, le=1024, description="entries of a listing when no limit is given"
    )
    list_limit_max: int = Field(
        1024, ge=1, le=10_000, description="entries of a listing at the most"
    )
    search: SearchOptions = Field(SearchOptions(), description="how files are searched")
    summaries: SummaryOptions = Field(
        SummaryOptions(), description="how a model, if there is one, summarises files"
    )
