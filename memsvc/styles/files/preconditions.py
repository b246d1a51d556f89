"""What a caller may demand of a file before it is read or changed."""

from memsvc.core.errors import Code, MemsvcError
from memsvc.store.files import File


def check_version(file: File | None, expected_version: str | None) -> None:
    """VERSION_CONFLICT unless the file is at the expected version, if one is expected."""
    if expected_version is not None and (file is None or file.version != expected_version):
        raise MemsvcError(
            Code.VERSION_CONFLICT, "file version changed; re-read the file and recompute the edit before retrying"
        )
