"""Options of notebooks."""

from pydantic import Field, field_validator

from memsvc.core.options import Options
from memsvc.styles.notebook.links import ROOT, links


class NotebookOptions(Options):
    """Limits of the notebooks, one of which each project has."""

    root_template: str = Field(
        "# Notes\n", description="what the root document holds before anybody writes it"
    )
    depth_max: int = Field(32, ge=1, le=1000, description="levels of documents below the root")
    documents_max: int = Field(20_000, ge=1, le=1_000_000, description="documents of a notebook")
    document_bytes_max: int = Field(
        1_000_000, ge=1, le=10_000_000, description="one document, in bytes"
    )
    oversized_bytes: int = Field(
        16_000,
        ge=100,
        le=10_000_000,
        description="bytes above which a document is said to be better split",
    )
    search_limit: int = Field(
        10, ge=1, le=100, description="passages of a search when no limit is given"
    )

    @field_validator("root_template")
    @classmethod
    def _tree(cls, value: str) -> str:
        if ROOT in links(value):
            raise ValueError("the root document must not link itself")
        return value
