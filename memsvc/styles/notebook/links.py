"""Names of documents, and the links by which documents make a tree.

An id is any identifier without brackets, line breaks, or blanks around it. A link is `[[id]]`,
anywhere in a text: in a list, a heading, a sentence, a code span or fence. All text between the
brackets is the id; other brackets are text.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from memsvc.core.errors import MemsvcError
from memsvc.core.paths import IDENTIFIER_BYTES_MAX, check_identifier, decode_segment, encode_segment

ROOT: Final = "root"
DIRECTORY: Final = "/notebook"
SUFFIX: Final = ".md"

_LINK: Final = re.compile(rf"\[\[([^\[\]\n]{{1,{IDENTIFIER_BYTES_MAX}}})\]\]")
_LONG: Final = re.compile(rf"\[\[([^\[\]\n]{{{IDENTIFIER_BYTES_MAX // 4},}})\]\]")
_LIST_MARK: Final = re.compile(r"(?:[-*+]|\d{1,9}[.)])?\Z")
_NO_PART: Final = re.compile(r"[\[\]\u2028\u2029]")


def document_id(name: str) -> str | None:
    """Return the id that a name means, in NFC; None where it can be none."""
    try:
        name = check_identifier(name, "id")
    except MemsvcError:
        return None
    return None if name != name.strip() or _NO_PART.search(name) else name


def path_of(document: str) -> str:
    """Return the path of the document's file."""
    return f"{DIRECTORY}/{encode_segment(document)}{SUFFIX}"


def document_at(path: str) -> str | None:
    """Return the document whose file is at a path, if one can be."""
    if not path.startswith(DIRECTORY + "/") or not path.endswith(SUFFIX):
        return None
    return decode_segment(path[len(DIRECTORY) + 1 : -len(SUFFIX)])


def initial(document: str) -> str:
    """Return the content of a document that a link has made."""
    return f"# {document}\n\n"


def links(text: str) -> tuple[str, ...]:
    """Return the ids that a text links, in order, each once."""
    return tuple(dict.fromkeys(found for found, _ in _linked(text)))


def too_long_links(text: str) -> list[str]:
    """Return what would be the ids that a text links, were they not too long, in order."""
    return [
        name
        for name in _LONG.findall(text)
        if name == name.strip()
        and document_id(name) is None
        and len(name.encode(errors="replace")) > IDENTIFIER_BYTES_MAX
    ]


def with_link(text: str, document: str) -> str:
    """Return the text with a link to a document appended on a line of its own."""
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}- [[{document}]]\n"


def with_new_ids(text: str, new_ids: Mapping[str, str]) -> str:
    """Return the text with its links to renamed documents mended."""
    parts, at = [], 0
    for document, found in _linked(text):
        if document in new_ids:
            parts += [text[at : found.start(1)], new_ids[document]]
            at = found.end(1)
    return "".join([*parts, text[at:]])


def without_links(text: str, documents: Collection[str]) -> str:
    """Return the text with no link to these documents.

    A line that is nothing but such a link is removed, with its list mark; elsewhere the name stays
    and the brackets go.
    """
    return "".join(_without(line, documents) for line in re.findall(r"[^\n]*\n|[^\n]+", text))


def _without(line: str, documents: Collection[str]) -> str:
    bare, named = [], []
    at = 0
    for document, found in _linked(line):
        if document in documents:
            start, end = found.span()
            bare.append(line[at:start])
            named += [line[at:start], found[1]]
            at = end
    if not named:
        return line
    rest = line[at:]
    return "" if _LIST_MARK.match("".join([*bare, rest]).strip()) else "".join([*named, rest])


def _linked(text: str) -> Iterator[tuple[str, "re.Match[str]"]]:
    for found in _LINK.finditer(text):
        name = found[1]
        if not name.isascii() or not name.isalnum():
            known = document_id(name)
            if known is None:
                continue
            name = known
        yield name, found
