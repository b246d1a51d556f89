"""A folder of Markdown files, one per document, in sync with documents that are stored elsewhere.

It records a hash of each file it writes, so that it never overwrites or removes a file that
somebody else has written.
"""

import fcntl
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from memsvc.core.paths import decode_segment, encode_segment

SUFFIX: Final = ".md"


class DocumentFolder:
    """The files of one folder; `memory` is a private folder where it records what it wrote."""

    def __init__(self, folder: Path, memory: Path) -> None:
        self._folder = folder
        self._lock = memory / "documents.lock"
        self._written = memory / "documents.json"
        self._new = memory / "document.new"

    def read(self) -> tuple[dict[str, str], list[str]]:
        """Return the texts of all documents by their ids, and a line for each file that is none."""
        texts: dict[str, str] = {}
        errors: list[str] = []
        for file in sorted(self._folder.glob(f"*{SUFFIX}")):
            if not file.is_file():
                continue
            try:
                texts[_id(file)] = file.read_bytes().decode()
            except UnicodeDecodeError:
                errors.append(f"{file.name} is not UTF-8 and was left alone")
            except OSError as error:
                errors.append(f"{file.name} cannot be read: {error.strerror}")
        return texts, errors

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against every other process that locks it; blocks."""
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def written(self) -> dict[str, str]:
        """Return the SHA-256 of what was written, as hex digits by ids, of existing files."""
        names = {file.name for file in self._folder.iterdir()}
        return {
            document: file_hash
            for document, file_hash in self._read_written().items()
            if _name(document) in names
        }

    def _read_written(self) -> dict[str, str]:
        try:
            known = json.loads(self._written.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def write(self, texts: Mapping[str, bytes], document_ids: Collection[str]) -> list[str]:
        """Write these texts to files, and remove files of documents not among `document_ids`.

        Each file is replaced atomically. Files that somebody else wrote stay, and each gets a line
        in the result.
        """
        written = self._read_written()
        errors: list[str] = []
        for document, text in texts.items():
            new_hash = sha256(text).hexdigest()
            try:
                current_hash = self._current_hash(document)
                if current_hash not in (None, new_hash, written.get(document)):
                    errors.append(
                        f"{_name(document)} was changed by somebody else and was left as it is"
                    )
                    continue
                if current_hash != new_hash:
                    self._replace(document, text)
            except OSError as error:
                errors.append(f"{_name(document)} cannot be written: {error.strerror}")
            else:
                written[document] = new_hash
        for document in written.keys() - set(document_ids):
            if self._current_hash(document) not in (None, written[document]):
                errors.append(f"{_name(document)} was changed by somebody else and was not removed")
            else:
                (self._folder / _name(document)).unlink(missing_ok=True)
            del written[document]
        self._write_written(written)
        return errors

    def _current_hash(self, document: str) -> str | None:
        try:
            return sha256((self._folder / _name(document)).read_bytes()).hexdigest()
        except FileNotFoundError:
            return None

    def _replace(self, document: str, text: bytes) -> None:
        self._new.write_bytes(text)
        self._new.replace(self._folder / _name(document))

    def _write_written(self, written: Mapping[str, str]) -> None:
        new = self._written.with_suffix(".new")
        new.write_text(json.dumps(written, ensure_ascii=False, indent=1), "utf-8")
        new.replace(self._written)


def _name(document: str) -> str:
    """Return the name of a document's file: its id, encoded where that is no valid name."""
    plain = not document.startswith(".") and not any(char in document for char in "/\\%\0")
    return f"{document if plain else encode_segment(document)}{SUFFIX}"


def _id(file: Path) -> str:
    name = file.name.removesuffix(SUFFIX)
    return (decode_segment(name) if "%" in name else None) or name
