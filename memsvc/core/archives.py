"""Export and restore of a tenant's memory as bytes, for surfaces that carry them."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import BinaryIO, Final, Protocol

from pydantic import BaseModel

from memsvc.core.frozen import frozen
from memsvc.core.scope import Scope

EXPORT_TOOL: Final = "archive_export"
IMPORT_TOOL: Final = "archive_import"
ARCHIVE_PATH: Final = "/api/archive"
"""Path that serves the bytes of an export as a call of one tool and takes them as a call of the
other."""


@frozen
class OpenArchive:
    """An archive being exported: its file name, its media type and its bytes."""

    name: str
    media_type: str
    chunks: AsyncIterator[bytes]


class ArchiveTransfers(Protocol):
    """Archives, made and restored, with the arguments of the tools."""

    @property
    def bytes_max(self) -> int:
        """Return the size limit of an archive to restore, as it is sent."""
        ...

    @property
    def export_bytes_max(self) -> int:
        """Return the size limit of an exported archive, as it is sent."""
        ...

    @property
    def idle_s_max(self) -> float:
        """Return how long to wait for more bytes to arrive, or to be read by the client."""
        ...

    def slot(self, tenant: bytes) -> AbstractContextManager[None]:
        """Reserve one of the slots for concurrent exports and restores.

        RATE_LIMITED when all slots are taken, or all that one tenant may have: where there are two,
        one is always left for other tenants."""
        ...

    def opened(
        self, scope: Scope, *, gzip: bool, calls: bool
    ) -> AbstractAsyncContextManager[OpenArchive]:
        """Return the archive that archive_export would count.

        Its chunks must be read within the block."""
        ...

    async def restored(self, scope: Scope, archive: BinaryIO, *, check: bool) -> BaseModel:
        """Restore an archive and return the result as archive_import does."""
        ...
