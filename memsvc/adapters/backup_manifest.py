"""Verification that a copy of a database is as PostgreSQL wrote it, as `pg_verifybackup` does.

The embedded server's wheel carries that program in a form that does not start.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MANIFEST: Final = "backup_manifest"
CHECKSUMS: Final = "SHA256"
"""Checksums that a copy is taken with."""
_SEGMENT_BITS: Final = 24


@dataclass(frozen=True, slots=True)
class WalRange:
    """The log that a copy needs to be complete, from `start` to `end` on a timeline."""

    timeline: int
    start: str
    end: str

    @property
    def last_segment(self) -> str:
        """Return the name of the segment in which it ends."""
        high, low = (int(part, 16) for part in self.end.split("/"))
        # one less: at the end of a segment, the next has not begun
        number = ((high << 32 | low) - 1) >> _SEGMENT_BITS
        return f"{self.timeline:08X}{number >> 8:08X}{number & 0xFF:08X}"


def wal_range(data: Path) -> WalRange:
    """Return the log that the copy in this folder needs."""
    (one,) = _manifest(data)["WAL-Ranges"]
    return WalRange(one["Timeline"], one["Start-LSN"], one["End-LSN"])


def find_errors(data: Path) -> str | None:
    """Return a short description of the damage of a copy, or None; read all of it but its log."""
    if not (data / MANIFEST).is_file():
        return f"{MANIFEST} is missing"
    text = (data / MANIFEST).read_bytes()
    body, _, rest = text.rpartition(b'"Manifest-Checksum"')
    try:
        checksum = json.loads(b"{" + b'"Manifest-Checksum"' + rest)["Manifest-Checksum"]
    except ValueError:
        checksum = None
    if hashlib.sha256(body).hexdigest() != checksum:
        return f"{MANIFEST} is damaged"
    for file in json.loads(text)["Files"]:
        name = (
            file["Path"]
            if "Path" in file
            else bytes.fromhex(file["Encoded-Path"]).decode(errors="surrogateescape")
        )
        path = data / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != file["Size"]:
            return f"{name} has another size"
        with path.open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != file["Checksum"]:
                return f"{name} has another content"
    return None


def _manifest(data: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((data / MANIFEST).read_bytes())
    return manifest
