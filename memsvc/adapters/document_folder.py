"""A folder of Markdown files, one a document, kept in step with documents that are stored elsewhere.

What this writes it remembers, by a hash, so that it never overwrites or removes a file that somebody else has written.
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
    """The files of one folder. `memory`, a folder that nobody else writes, is where it remembers what it wrote."""

    def __init__(self, folder: Path, memory: Path) -> None:
        self._folder = folder
        self._lock = memory / "documents.lock"
        self._written = memory / "documents.json"
        self._new = memory / "document.new"

    def read(self) -> tuple[dict[str, str], list[str]]:
        """The texts of all documents by their ids, and what is no document: a line each."""
        texts: dict[str, str] = {}
        problems: list[str] = []
        for file in sorted(self._folder.glob(f"*{SUFFIX}")):
            if not file.is_file():
                continue
            try:
                texts[_id(file)] = file.read_bytes().decode()
            except UnicodeDecodeError:
                problems.append(f"{file.name} is not UTF-8 and was left alone")
            except OSError as error:
                problems.append(f"{file.name} cannot be read: {error.strerror}")
        return texts, problems

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep every other process that does so from writing this folder. Blocks."""
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def written(self) -> dict[str, str]:
        """The SHA-256 of what was written, as hexadecimal digits by ids, of the files that are still there."""
        names = {file.name for file in self._folder.iterdir()}
        return {document: held for document, held in self._remembered().items() if _name(document) in names}

    def _remembered(self) -> dict[str, str]:
        try:
            known = json.loads(self._written.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def write(self, texts: Mapping[str, bytes], there: Collection[str]) -> list[str]:
        """Let the files of these documents hold these texts, and remove those of documents that are not `there`; each
        file is replaced as a whole. The files that somebody else wrote stay, and there is a line about each."""
        written = self._remembered()
        problems: list[str] = []
        for document, text in texts.items():
            wanted = sha256(text).hexdigest()
            try:
                held = self._held(document)
                if held not in (None, wanted, written.get(document)):
                    problems.append(f"{_name(document)} was changed by somebody else and was left as it is")
                    continue
                if held != wanted:
                    self._replace(document, text)
            except OSError as error:
                problems.append(f"{_name(document)} cannot be written: {error.strerror}")
            else:
                written[document] = wanted
        for document in written.keys() - set(there):
            if self._held(document) not in (None, written[document]):
                problems.append(f"{_name(document)} was changed by somebody else and was not removed")
            else:
                (self._folder / _name(document)).unlink(missing_ok=True)
            del written[document]
        self._remember(written)
        return problems

    def _held(self, document: str) -> str | None:
        try:
            return sha256((self._folder / _name(document)).read_bytes()).hexdigest()
        except FileNotFoundError:
            return None

    def _replace(self, document: str, text: bytes) -> None:
        self._new.write_bytes(text)
        self._new.replace(self._folder / _name(document))

    def _remember(self, written: Mapping[str, str]) -> None:
        new = self._written.with_suffix(".new")
        new.write_text(json.dumps(written, ensure_ascii=False, indent=1), "utf-8")
        new.replace(self._written)


def _name(document: str) -> str:
    """The name of a document's file: its id, but where that is no name."""
    plain = not document.startswith(".") and not any(letter in document for letter in "/\\%\0")
    return f"{document if plain else encode_segment(document)}{SUFFIX}"


def _id(file: Path) -> str:
    name = file.name.removesuffix(SUFFIX)
    return (decode_segment(name) if "%" in name else None) or name
