"""Options of notebooks."""

from pydantic import Field, field_validator

from memsvc.core.options import Limit, Options
from memsvc.styles.notebook.document_tree import ROOT, links


class NotebookOptions(Options):
    """Options of a project's notebook, which is a tree of Markdown documents."""

    root_template: str = Field(
        "# Notes\n", description="initial text of the root document of a new notebook"
    )
    depth_max: Limit = Field(
        32,
        description="maximum number of levels of documents below the root; a call that would exceed"
        " it is refused",
    )
    documents_max: int = Field(
        20_000,
        ge=1,
        le=1_000_000,
        description="maximum number of documents in a notebook; a call that would exceed it is"
        " refused",
    )
    document_bytes_max: int = Field(
        1_000_000,
        ge=1,
        le=10_000_000,
        description="maximum size of a document, in bytes; a larger text is refused",
    )
    oversized_bytes: int = Field(
        16_000,
        ge=100,
        le=10_000_000,
        description="size of a document in bytes above which the tools suggest splitting it",
    )
    search_limit: int = Field(
        10, ge=1, le=100, description="default maximum number of passages that a search returns"
    )

    @field_validator("root_template")
    @classmethod
    def _tree(cls, value: str) -> str:
        if ROOT in links(value):
            raise ValueError("the template must not contain a link to the root document itself")
        return value
