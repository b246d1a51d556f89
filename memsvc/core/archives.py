"""A tenant's memory as bytes, out and in, for surfaces that carry them."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol

from pydantic import BaseModel

from memsvc.core.scope import Scope

EXPORT_TOOL: Final = "archive_export"
IMPORT_TOOL: Final = "archive_import"
ARCHIVE_PATH: Final = "/api/archive"
"""Where the bytes of an archive go out, as a call of one of these tools, and come in, as one of the other."""


@dataclass(frozen=True, slots=True)
class OpenArchive:
    """An archive on its way out: the name that a file of it should have, what it is, and its bytes."""

    name: str
    media_type: str
    pieces: AsyncIterator[bytes]


class Archives(Protocol):
    """Archives, made and restored. `asked` is in each case what the arguments model of the tool made of the
    arguments."""

    @property
    def bytes_max(self) -> int:
        """What an archive to restore may hold, as it is sent."""
        ...

    @property
    def export_bytes_max(self) -> int:
        """What an archive that is made may hold, as it is sent."""
        ...

    @property
    def idle_s_max(self) -> float:
        """How long to wait for more of it, or for somebody to take more of one that is made."""
        ...

    def place(self, tenant: bytes) -> AbstractContextManager[None]:
        """One of the places for those who make or restore an archive at the same time; RATE_LIMITED when all of them
        are taken, or all that one tenant may have: where there are two, one is always left for others."""
        ...

    def opened(self, scope: Scope, asked: Any) -> AbstractAsyncContextManager[OpenArchive]:
        """The archive that archive_export would count; its pieces have to be taken within the block."""
        ...

    async def restored(self, scope: Scope, asked: Any, archive: BinaryIO) -> BaseModel:
        """What became of an archive, as archive_import tells it."""
        ...
