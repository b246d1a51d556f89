"""Limits of a project's files."""

from pydantic import Field

from memsvc.core.options import Amount, Count, DailyLimit, Limit, Options, Share


class SearchOptions(Options):
    """Options of file search."""

    enabled: bool = Field(
        True,
        description="whether file_search is available; files are indexed even if it is not",
    )
    limit_default: int = Field(
        20,
        ge=1,
        le=100,
        description="maximum number of passages that a search returns if the call does not set a"
        " limit",
    )
    limit_max: int = Field(
        20,
        ge=1,
        le=100,
        description="maximum number of passages that a search returns; a higher limit in a call is"
        " lowered to it",
    )
    candidates: int = Field(
        100,
        ge=10,
        le=1000,
        description="number of best matches by words that a search scores; it also scores the same"
        " number of best matches by meaning",
    )
    reranked: Limit = Field(
        50,
        description="number of best passages that the reranker reorders, if one is configured",
    )
    semantic_weight: Share = Field(
        0.3,
        description="weight of meaning in the score of a passage, 0 to 1; words have the remaining"
        " weight",
    )


class SummaryOptions(Options):
    """Options of file summaries.

    Without a model, a summary is made from the beginning of the file."""

    enabled: bool = Field(
        True, description="whether to summarise files with a model, if one is configured"
    )
    a_day: DailyLimit = Field(
        1000,
        description="maximum number of files that a model summarises per day and tenant; further"
        " files wait until the next day; 0: unlimited",
    )


class FilesOptions(Options):
    """Limits of the file store, in bytes and entries."""

    payload_bytes_max: Count = Field(
        2_000_000, description="maximum size of the content of one write, in bytes"
    )
    file_bytes_max: int = Field(
        10_000_000, ge=1, le=2**30, description="maximum size of a file, in bytes"
    )
    project_bytes_max: Count = Field(
        100_000_000,
        description="maximum total size of the files that callers have written in a project, in"
        " bytes",
    )
    tenant_bytes_max: Amount = Field(
        0,
        description="maximum total size of the files that callers have written in all projects of a"
        " tenant, in bytes; 0: unlimited",
    )
    versions_kept: int = Field(
        3,
        ge=0,
        le=10_000,
        description="for each file that callers have written: number of newest past versions to"
        " keep, whatever their age",
    )
    versions_days: int = Field(
        7,
        ge=0,
        le=36500,
        description="number of days to keep each past version after it was replaced, even if a file"
        " then has more past versions than versions_kept",
    )
    delete_retention_days: int = Field(
        30,
        ge=0,
        le=36500,
        description="number of days after which the content of a deleted file is purged",
    )
    list_limit_default: int = Field(
        256,
        ge=1,
        le=1024,
        description="maximum number of files and directories in one page of a listing if the call"
        " does not set a limit",
    )
    list_limit_max: int = Field(
        1024,
        ge=1,
        le=10_000,
        description="maximum number of files and directories in one page of a listing; a higher"
        " limit in a call is lowered to it",
    )
    search: SearchOptions = Field(SearchOptions(), description="file search")
    summaries: SummaryOptions = Field(
        SummaryOptions(),
        description="settings of file summaries",
    )
