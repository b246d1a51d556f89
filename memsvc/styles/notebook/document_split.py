"""Splitting of a long document: at the headings of one level, or else between paragraphs. Pure."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from memsvc.styles.notebook.links import links, without_links

NAME_BYTES_MAX: Final = 100
"""Leaves space for a number after it."""

_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_NOT_IN_NAMES: Final = re.compile(r"[\[\]\u2028\u2029]|[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a text that could be a document of its own."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class SplitText:
    """A text in order: what stays, as strings, and what becomes documents, as sections."""

    parts: tuple[str | Section, ...]

    @property
    def new_documents(self) -> list[Section]:
        return [part for part in self.parts if isinstance(part, Section)]


def split_text(text: str, name: str, *, bytes_max: int) -> SplitText:
    """Split the text at its most general level of headings that has two or more.

    One without such headings is split between paragraphs, into parts of at most half of
    `bytes_max`, where it is longer than that. Nothing is lost: the pieces are the text, but for the
    mark of the heading that a section begins with.
    """
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    headers = dict(_find_headers(lines))
    levels = [level for level, _ in headers.values()]
    level = next((level for level in range(1, 7) if levels.count(level) > 1), None)
    if level is not None:
        return SplitText(tuple(_split_at_headers(lines, headers, level)))
    if len(text.encode()) > bytes_max:
        return SplitText(tuple(_by_paragraphs(lines, name, bytes_max // 2)))
    return SplitText((text,))


def _find_headers(lines: list[str]) -> Iterator[tuple[int, tuple[int, str]]]:
    """Yield the level and title of lines that are headings, by line number."""
    for number, line in _outside_fences(lines):
        level, title = _heading(line)
        if title.strip("#"):  # one without a title is no place to split
            yield number, (level, title)


def _heading(line: str) -> tuple[int, str]:
    """Return the level of a heading and its title, without closing marks; 0 for any other line."""
    found = _HEADING.match(line)
    if found is None:
        return 0, ""
    whole = line[found.end() :].removesuffix("\n").removesuffix("\r").rstrip(" \t")
    title = whole.rstrip("#")
    return len(found[1]), title.rstrip(" \t") if title.endswith((" ", "\t")) else whole


def _outside_fences(lines: list[str]) -> Iterator[tuple[int, str]]:
    fence = ""
    for number, line in enumerate(lines):
        found = _FENCE.match(line)
        if found and not fence:
            fence = found[1]
        elif found and found[1].startswith(fence) and not line[found.end() :].strip():
            fence = ""
        elif not fence:
            yield number, line


def _split_at_headers(
    lines: list[str], headers: dict[int, tuple[int, str]], level: int
) -> Iterator[str | Section]:
    start_lines = [number for number, (found, _) in headers.items() if found <= level] + [
        len(lines)
    ]
    yield "".join(lines[: start_lines[0]])
    for start, end in pairwise(start_lines):
        found, title = headers[start]
        if found == level:
            yield Section(title, f"# {title}\n" + "".join(lines[start + 1 : end]))
        else:
            yield "".join(lines[start:end])


def _by_paragraphs(lines: list[str], name: str, bytes_max: int) -> Iterator[str | Section]:
    if _heading(lines[0])[0]:
        yield lines[0]
        lines = lines[1:]
    part: list[str] = []
    paragraph: list[str] = []
    number, part_bytes, paragraph_bytes = 1, 0, 0
    blank = {at for at, line in _outside_fences(lines) if not line.strip()}
    for at, line in enumerate(lines):
        paragraph.append(line)
        paragraph_bytes += len(line.encode())
        if at in blank or at == len(lines) - 1:
            if part and part_bytes + paragraph_bytes > bytes_max:
                yield _indexed_section(name, number, part)
                number, part, part_bytes = number + 1, [], 0
            part += paragraph
            part_bytes += paragraph_bytes
            paragraph, paragraph_bytes = [], 0
    yield _indexed_section(name, number, part)


def _indexed_section(name: str, number: int, part: list[str]) -> Section:
    return Section(f"{name} {number}", f"# {name} {number}\n\n" + "".join(part).lstrip("\n"))


def name_of(title: str) -> str:
    """Return the name of a section's document."""
    name = " ".join(_NOT_IN_NAMES.sub(" ", unicodedata.normalize("NFC", title)).split())
    while len(name.encode()) > NAME_BYTES_MAX:
        name = name[: min(len(name) - 1, NAME_BYTES_MAX)]
    return name.strip() or "part"


def names(parts: list[Section], taken: Callable[[str], bool]) -> list[str]:
    """Return a name for each section that no other one and, by `taken`, no document has."""
    used: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for section in parts:
        base = name_of(section.title)
        number = numbers.get(base, 1)
        name = f"{base} {number}" if number > 1 else base
        while name in used or taken(name):
            number += 1
            name = f"{base} {number}"
        used[name] = None
        numbers[base] = number
    return list(used)


def joined(split: SplitText, document_ids: list[str]) -> tuple[str, dict[str, str]]:
    """Return the document's text once its sections are documents of these names, and their texts.

    A document that several of them linked is linked by the first.
    """
    rest = "".join(part for part in split.parts if isinstance(part, str))
    seen = set(links(rest))
    texts: dict[str, str] = {}
    for name, section in zip(document_ids, split.new_documents, strict=True):
        texts[name] = without_links(section.text, seen & set(links(section.text)))
        seen |= set(links(texts[name]))
    order = iter(document_ids)
    lines = [part if isinstance(part, str) else f"- [[{next(order)}]]\n" for part in split.parts]
    return "".join(_separate_lines(lines)), texts


def _separate_lines(lines: list[str]) -> Iterator[str]:
    before = "\n"
    for line in lines:
        if line:
            yield line if before.endswith("\n") else "\n" + line
            before = line
