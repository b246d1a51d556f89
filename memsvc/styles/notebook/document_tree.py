"""Links of documents, and the effect of new texts on the tree that they make. Pure.

An id is any identifier without brackets, line breaks, or blanks around it. A link is `[[id]]`,
anywhere in a text: in a list, a heading, a sentence, a code span or fence. All text between the
brackets is the id; other brackets are text.

A document is below the one that links it, so a tree is: every document but the root is linked by
exactly one, and none by those below it.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from memsvc.core.errors import MemsvcError, invalid_content
from memsvc.core.frozen import frozen
from memsvc.core.paths import IDENTIFIER_BYTES_MAX, check_identifier, decode_segment, encode_segment
from memsvc.store.document_tree import DocumentNode

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


_LINK_ERROR: Final = "Error: content: cross-tree reference not allowed"


class TreeUpdate:
    """New texts for some documents of a tree, compared with the current tree.

    `known` are the existing ones of the documents that get a text and those that are newly linked;
    `parents` maps the former, and all above them, to their parents. New texts may be of documents
    that are yet to be made.
    """

    def __init__(
        self,
        links: Mapping[str, tuple[str, ...]],
        known: Mapping[str, DocumentNode],
        parents: Mapping[str, str | None],
    ) -> None:
        self._links = links
        self._known = known
        self._parents = {name: node.parent for name, node in known.items()} | dict(parents)
        self._new_parents: dict[str, str] = {}
        for document, linked in links.items():
            for one in linked:
                self._new_parents.setdefault(one, document)

    def check_links(self) -> None:
        """Raise INVALID_CONTENT for the first link by which the documents would be no tree."""
        for document, linked in self._links.items():
            line = set(self.line(document))
            other_parents = {one: self._other_parent(one, document) for one in linked}
            inner = {
                holder: one for one, holder in reversed(other_parents.items()) if holder is not None
            }
            for link in linked:
                if link in line:
                    raise _link_error(
                        " - circular reference detected", parent_id=document, link=link
                    )
                if link in inner:
                    raise _link_error(
                        " - merge point detected", link=link, existing_link=inner[link]
                    )
                if (holder := other_parents[link]) is not None:
                    raise _link_error("", link=link, other_parent_id=holder)

    def _other_parent(self, link: str, document: str) -> str | None:
        """Return which other document links this one, with the new texts."""
        for other, linked in self._links.items():
            if other != document and link in linked:
                return other
        parent = self._parents.get(link)
        return None if parent == document or parent in self._links else parent

    def line(self, document: str) -> Iterator[str]:
        """Yield a document and those above it, nearest first, with the new texts."""
        seen = set()
        current: str | None = document
        while current is not None and current not in seen:
            seen.add(current)
            yield current
            current = self._parent_of(current)

    def _parent_of(self, document: str) -> str | None:
        if document in self._new_parents:
            return self._new_parents[document]
        parent = self._parents.get(document)
        return None if parent in self._links else parent

    @property
    def dropped(self) -> list[str]:
        """Return the documents that nobody links any more."""
        previous = chain.from_iterable(
            self._known[name].children for name in self._links if name in self._known
        )
        return [one for one in previous if one not in self._new_parents]

    @property
    def moved(self) -> list[str]:
        """Return the documents that get another parent."""
        return [
            one
            for one, parent in self._new_parents.items()
            if one in self._parents and self._parents[one] != parent
        ]

    def change(
        self, texts: Mapping[str, str], descendants: Mapping[str, DocumentNode], *, depth_max: int
    ) -> "TreeChange":
        """Return the change of the tree.

        `descendants` are dropped or moved documents, with all below them. INVALID_CONTENT when it
        would be too deep, or would remove a document that gets a text.
        """
        put = {}
        created = []
        for document, linked in self._links.items():
            put[document] = DocumentNode(self._parent_of(document), linked)
            for one in linked:
                if one not in self._parents:
                    created.append(one)
                if one not in self._links and self._parents.get(one) != document:
                    put[one] = DocumentNode(
                        document, descendants[one].children if one in descendants else ()
                    )
        removed = list(self._removed(descendants))
        if self._links.keys() & set(removed):
            raise invalid_content(
                "Error: content: the call would remove a document whose text it has just written",
            )
        self._check_depth(descendants, depth_max)
        made = {one: initial(one) for one in created}
        return TreeChange(put, tuple(created), tuple(removed), {**made, **texts})

    def _removed(self, descendants: Mapping[str, DocumentNode]) -> Iterator[str]:
        waiting = self.dropped[::-1]
        while waiting:
            document = waiting.pop()
            yield document
            now = self._links.get(
                document, descendants[document].children if document in descendants else ()
            )
            waiting += [one for one in reversed(now) if self._parent_of(one) in (None, document)]

    def _check_depth(self, descendants: Mapping[str, DocumentNode], depth_max: int) -> None:
        for document, linked in self._links.items():
            deep = len(list(self.line(document)))
            fresh = [one for one in linked if one in descendants or one not in self._parents]
            for link in fresh:
                _check_depth(link, deep + _height(link, descendants), depth_max)


@frozen
class TreeChange:
    """A change of the tree: written nodes, and created and removed documents in link order.

    `texts` are the new contents of documents that are created or changed.
    """

    put: Mapping[str, DocumentNode]
    created: tuple[str, ...]
    removed: tuple[str, ...]
    texts: Mapping[str, str]


def _height(top: str, descendants: Mapping[str, DocumentNode]) -> int:
    """Return how many levels are below a document."""
    height, level = -1, [top]
    while level:
        height += 1
        level = [one for name in level if name in descendants for one in descendants[name].children]
    return height


def _link_error(reason: str, **details: Any) -> MemsvcError:
    return invalid_content(_LINK_ERROR + reason, details=details)


@frozen
class DerivedTree:
    """The tree that texts make: its nodes, and the documents that the root does not reach."""

    nodes: Mapping[str, DocumentNode]
    orphans: tuple[str, ...]


def tree_of(linked: Mapping[str, tuple[str, ...]]) -> DerivedTree:
    """Return the tree of documents that link each other like this, from the root down.

    Links to missing documents are left out, and so is every link to a document that has a parent.
    """
    nodes = {}
    waiting: list[tuple[str, str | None]] = [(ROOT, None)] if ROOT in linked else []
    seen = {ROOT}
    while waiting:
        document, parent = waiting.pop()
        children = tuple(one for one in linked[document] if one in linked and one not in seen)
        seen.update(children)
        nodes[document] = DocumentNode(parent, children)
        waiting += [(child, document) for child in reversed(children)]
    return DerivedTree(nodes, tuple(sorted(linked.keys() - nodes.keys())))


@frozen
class NotebookTree:
    """A whole new tree: its nodes and texts, created documents, and unlinked ones."""

    nodes: Mapping[str, DocumentNode]
    texts: Mapping[str, str]
    created: tuple[str, ...]
    orphans: tuple[str, ...]


def build_tree(texts: Mapping[str, str], *, depth_max: int) -> NotebookTree:
    """Return the tree of these texts, one of them the root's.

    INVALID_CONTENT where they make none, or one that is too deep.
    """
    linked = {document: links(text) for document, text in texts.items()}
    made = {one: initial(one) for one in chain.from_iterable(linked.values()) if one not in texts}
    tree = tree_of(linked | dict.fromkeys(made, ()))
    depth = {ROOT: 0}
    for document, node in tree.nodes.items():  # parents come before their children
        if node.parent is not None:
            depth[document] = depth[node.parent] + 1
            _check_depth(document, depth[document], depth_max)
    for document in tree.nodes:
        for link in linked.get(document, ()):
            if (holder := tree.nodes[link].parent) != document:
                _reject_link(tree.nodes, document, link, holder)
    return NotebookTree(
        tree.nodes,
        {
            document: texts[document] if document in texts else made[document]
            for document in tree.nodes
        },
        tuple(one for one in made if one in tree.nodes),
        tuple(one for one in tree.orphans if one in texts),
    )


def _reject_link(
    nodes: Mapping[str, DocumentNode], document: str, link: str, holder: str | None
) -> None:
    current: str | None = document
    while current is not None:
        if current == link:
            raise _link_error(" - circular reference detected", parent_id=document, link=link)
        current = nodes[current].parent
    raise _link_error("", link=link, other_parent_id=holder)


def _check_depth(link: str, depth: int, depth_max: int) -> None:
    if depth > depth_max:
        raise invalid_content(
            f"Error: content: the tree is limited to {depth_max} levels below the root",
            details={"link": link},
        )
