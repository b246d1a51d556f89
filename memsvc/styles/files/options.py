"""What a project's files may be."""

from pydantic import BaseModel, ConfigDict, Field


class FilesOptions(BaseModel):
    """Limits of the file store, in bytes and entries."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    payload_bytes_max: int = Field(2_000_000, ge=1, description="content of one write, in bytes")
    file_bytes_max: int = Field(10_000_000, ge=1, le=2**30, description="one file, in bytes")
    project_bytes_max: int = Field(100_000_000, ge=1, description="all files of a project that callers wrote, in bytes")
    list_limit_default: int = Field(256, ge=1, le=1024, description="entries of a listing when no limit is given")
    list_limit_max: int = Field(1024, ge=1, le=10_000, description="entries of a listing at the most")
