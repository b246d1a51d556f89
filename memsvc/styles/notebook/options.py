"""Options of notebooks."""

from pydantic import Field, field_validator

from memsvc.core.options import Options
from memsvc.styles.notebook.links import ROOT, links


class NotebookOptions(Options):
    """Limits of notebooks. Each project has one."""

    root_template: str = Field("# Notes\n", description="initial text of the root document")
    depth_max: int = Field(
        32, ge=1, le=1000, description="maximum levels of documents below the root"
    )
    documents_max: int = Field(
        20_000, ge=1, le=1_000_000, description="maximum number of documents in a notebook"
    )
    document_bytes_max: int = Field(
        1_000_000, ge=1, le=10_000_000, description="maximum size of a document, in bytes"
    )
    oversized_bytes: int = Field(
        16_000,
        ge=100,
        le=10_000_000,
        description="size in bytes above which the answer suggests splitting a document",
    )
    search_limit: int = Field(
        10, ge=1, le=100, description="default number of passages in a search"
    )

    @field_validator("root_template")
    @classmethod
    def _tree(cls, value: str) -> str:
        if ROOT in links(value):
            raise ValueError("the root document must not link itself")
        return value
