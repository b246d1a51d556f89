"""Rules for paths, names and identifiers, and the encoding of identifiers as path segments."""

import re
import unicodedata
from collections.abc import Iterable, Mapping

from memsvc.core.errors import invalid, invalid_path

PATH_BYTES_MAX = 512
KEPT_PATH_BYTES_MAX = 1024
SESSIONS_ROOT, USERS_ROOT = "/memory", "/whiteboard"
"""Directories of which each session, and each user, has one."""
ROOT_OF: Mapping[str, str] = {
    "turns": SESSIONS_ROOT,
    "whiteboard": USERS_ROOT,
    "notebook": "/notebook",
}
"""Roots of the files that the memory keeps itself, by the toolset of the tools that write them."""
KEPT_ROOTS = tuple(ROOT_OF.values())
"""Callers may read below these roots but not write."""
_NO_SEGMENTS = frozenset({"", ".", ".."})
IDENTIFIER_BYTES_MAX = 128
ROOT = ""

_PATH = re.compile(r"[A-Za-z0-9/_.%-]+\Z")
_PROJECT = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")
_SEGMENT_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")


def check_project(project: str) -> str:
    """Return the project name, or raise INVALID_PATH: 1 to 128 of `A-Za-z0-9_.-`."""
    if not _PROJECT.match(project):
        raise invalid_path("project must be 1 to 128 characters of A-Z a-z 0-9 _ . -")
    return project


def prefix_range(prefix: str) -> tuple[str, str]:
    """Return the range, in byte order, of all names with this prefix; the second is excluded."""
    return prefix, f"{prefix}\U0010ffff"


def roots_of(toolsets: Iterable[str]) -> list[str]:
    """Return the roots of these toolsets, of those that have one."""
    return [ROOT_OF[name] for name in toolsets if name in ROOT_OF]


def is_at(path: str, roots: Iterable[str]) -> bool:
    """Return whether a path is one of these directories or inside one."""
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def is_kept(path: str) -> bool:
    """Return whether a path belongs to the memory's own files."""
    return is_at(path, KEPT_ROOTS)


def check_path(path: str) -> str:
    """Return the canonical path, or raise INVALID_PATH.

    `""` and `"/"` are the root, returned as `""`. A path is at most 512 bytes (1,024 for the
    memory's own files) of `A-Za-z0-9/_.%-`, starts with `/`, does not end with it, and has no
    empty, `.` or `..` segment."""
    if path in ("", "/"):
        return ROOT
    if not _PATH.match(path):
        raise invalid_path("path may only contain A-Z a-z 0-9 / _ . % -")
    bytes_max = KEPT_PATH_BYTES_MAX if is_kept(path) else PATH_BYTES_MAX
    if len(path) > bytes_max:
        raise invalid_path(f"path is longer than {bytes_max} bytes")
    if not path.startswith("/") or path.endswith("/"):
        raise invalid_path("path must start with / and must not end with /")
    if not _NO_SEGMENTS.isdisjoint(path[1:].split("/")):
        raise invalid_path("a part of a path between two slashes must not be empty, . or ..")
    return path


def check_identifier(value: str, name: str) -> str:
    """Return the identifier in NFC, or raise INVALID_ARGUMENT.

    Any Unicode text of 1 to 128 bytes without control characters is valid."""
    # normalize() is quadratic in runs of combining marks, so far too long text is rejected before
    if len(value) > 4 * IDENTIFIER_BYTES_MAX:
        raise invalid(f"{name} must be 1 to {IDENTIFIER_BYTES_MAX} bytes of UTF-8")
    try:
        value = unicodedata.normalize("NFC", value)
        size_bytes = len(value.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise invalid(f"{name} is not valid Unicode text") from error
    if not 1 <= size_bytes <= IDENTIFIER_BYTES_MAX:
        raise invalid(
            f"{name} must be 1 to {IDENTIFIER_BYTES_MAX} bytes of UTF-8, not {size_bytes}"
        )
    if any(unicodedata.category(character) == "Cc" for character in value):
        raise invalid(f"{name} must not contain control characters")
    return value


def checked_name(value: str, name: str) -> str:
    """Return an identifier without white space around it, or "" for a blank one."""
    return check_identifier(value.strip(), name) if value.strip() else ""


def encode_segment(identifier: str) -> str:
    """Return one path segment for an identifier, reversible by `decode_segment`.

    Distinct identifiers give distinct segments. Bytes outside `A-Za-z0-9_-.` are percent-encoded,
    and so are the dots of an identifier that consists of dots alone."""
    raw = identifier.encode("utf-8")
    if set(raw) == {0x2E}:
        return "%2E" * len(raw)
    return "".join(chr(byte) if byte in _SEGMENT_SAFE else f"%{byte:02X}" for byte in raw)


def decode_segment(segment: str) -> str | None:
    """Return the identifier that `encode_segment` encoded as this segment.

    None if there is none."""
    raw = bytearray()
    position = 0
    while position < len(segment):
        if segment[position] != "%":
            raw += segment[position].encode("utf-8")
            position += 1
            continue
        digits = segment[position + 1 : position + 3]
        if not re.fullmatch(r"[0-9A-F]{2}", digits):
            return None
        raw.append(int(digits, 16))
        position += 3
    try:
        identifier = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return identifier if encode_segment(identifier) == segment else None


def ancestors(path: str) -> list[str]:
    """Return the proper ancestor directories of a path, nearest last, without the root.

    `/a/b/c` gives `/a`, `/a/b`."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]


def name_of(path: str) -> str:
    """Return the last segment of a path."""
    return path.rsplit("/", 1)[-1]


def children_range(directory: str) -> tuple[str, str]:
    """Return the half-open range of paths inside a directory, in byte order: `low <= path < high`.

    `/` sorts just before `0`, so the range of `/a_b` is from `/a_b/` to `/a_b0` and never touches
    `/axb` or `/a_bc`."""
    return directory + "/", directory + "0"
