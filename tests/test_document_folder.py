"""A folder of documents: whole files, names that come back, and nothing of anybody else's
touched."""

from pathlib import Path

import pytest

from memsvc.standalone import DocumentFolder

NAMES = ["root", "a-b_c", "メモ", "x/y", "..", ".hidden", "50%", "%2F", "back\\slash", "two words"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / ".memory").mkdir()
    return tmp_path


@pytest.fixture
def folder(place: Path) -> DocumentFolder:
    return DocumentFolder(place, place / ".memory")


def _files(place: Path) -> set[str]:
    return {file.name for file in place.iterdir()} - {".memory"}


def test_every_name_comes_back_from_its_file(place: Path, folder: DocumentFolder) -> None:
    texts = {name: f"about {name}".encode() for name in NAMES}
    assert folder.write(texts, NAMES) == []
    assert len(_files(place)) == len(NAMES)
    assert folder.read() == ({name: f"about {name}" for name in NAMES}, [])
    assert folder.written().keys() == set(NAMES)


def test_what_is_no_longer_there_is_removed(place: Path, folder: DocumentFolder) -> None:
    folder.write({"a": b"1", "b": b"2"}, ["a", "b"])
    assert folder.write({"a": b"3"}, ["a"]) == []
    assert _files(place) == {"a.md"}
    assert (place / "a.md").read_bytes() == b"3"


def test_a_file_of_somebody_else_is_neither_written_nor_removed(
    place: Path, folder: DocumentFolder
) -> None:
    (place / "mine.md").write_bytes(b"mine")
    folder.write({"a": b"1"}, ["a"])
    (place / "a.md").write_bytes(b"changed")
    told = folder.write({"mine": b"theirs", "a": b"2"}, ["mine", "a"])
    assert told == [
        f"{name}.md was changed by another program and was not overwritten"
        for name in ("mine", "a")
    ]
    assert folder.write({}, []) == ["a.md was changed by another program and was not removed"]
    assert ((place / "mine.md").read_bytes(), (place / "a.md").read_bytes()) == (
        b"mine",
        b"changed",
    )


def test_a_write_that_was_not_remembered_is_taken_for_ours(
    place: Path, folder: DocumentFolder
) -> None:
    folder.write({"a": b"1"}, ["a"])
    (place / "a.md").write_bytes(
        b"2"
    )  # as if the process had ended between the file and the memory of it
    assert folder.write({"a": b"2"}, ["a"]) == []
    assert folder.write({"a": b"3"}, ["a"]) == []
    assert (place / "a.md").read_bytes() == b"3"


def test_a_file_that_is_gone_is_not_known_to_be_written(
    place: Path, folder: DocumentFolder
) -> None:
    folder.write({"a": b"1"}, ["a"])
    (place / "a.md").unlink()
    assert folder.written() == {}
    assert folder.write({"a": b"1"}, ["a"]) == []
    assert _files(place) == {"a.md"}


def test_a_name_that_no_file_can_have_is_told(place: Path, folder: DocumentFolder) -> None:
    long = "/" * 100
    (told,) = folder.write({long: b"1", "a": b"2"}, [long, "a"])
    assert "cannot write" in told
    assert _files(place) == {"a.md"}
    assert folder.write({"a": b"3"}, ["a"]) == []


def test_what_is_no_document_is_told(place: Path, folder: DocumentFolder) -> None:
    (place / "binary.md").write_bytes(b"\xff")
    (place / "folder.md").mkdir()
    (place / "other.txt").write_bytes(b"x")
    assert folder.read() == ({}, ["binary.md is not UTF-8 and was skipped"])
