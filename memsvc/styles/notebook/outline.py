"""Effect of new texts on the tree of documents: creations, removals and validity. Pure.

A document is below the one that links it, so a tree is: every document but the root is linked by
exactly one, and none by those below it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from memsvc.core.errors import Code, MemsvcError
from memsvc.store.outlines import Node
from memsvc.styles.notebook.links import ROOT, initial, links

_REFUSED: Final = "Error: content: cross-tree reference not allowed"


class Redrawing:
    """New texts for some documents of a tree, compared with the current tree.

    `known` are the existing ones of the documents that get a text and those that are newly linked;
    `parents` maps the former, and all above them, to their parents. New texts may be of documents
    that are yet to be made.
    """

    def __init__(
        self, links: Mapping[str, tuple[str, ...]], known: Mapping[str, Node], parents: Mapping[str, str | None]
    ) -> None:
        self._links = links
        self._known = known
        self._parents = {name: node.parent for name, node in known.items()} | dict(parents)
        self._adopted: dict[str, str] = {}
        for document, linked in links.items():
            for one in linked:
                self._adopted.setdefault(one, document)

    def check_links(self) -> None:
        """Raise INVALID_CONTENT for the first link by which the documents would be no tree."""
        for document, linked in self._links.items():
            line = set(self.line(document))
            held = {one: self._other_holder(one, document) for one in linked}
            inner = {holder: one for one, holder in reversed(held.items()) if holder is not None}
            for link in linked:
                if link in line:
                    raise _refused(" - circular reference detected", parent_id=document, link=link)
                if link in inner:
                    raise _refused(" - merge point detected", link=link, existing_link=inner[link])
                if (holder := held[link]) is not None:
                    raise _refused("", link=link, other_parent_id=holder)

    def _other_holder(self, link: str, document: str) -> str | None:
        """Return which other document links this one, with the new texts."""
        for other, linked in self._links.items():
            if other != document and link in linked:
                return other
        parent = self._parents.get(link)
        return None if parent == document or parent in self._links else parent

    def line(self, document: str) -> Iterator[str]:
        """Yield a document and those above it, nearest first, with the new texts."""
        seen: set[str] = set()
        above: str | None = document
        while above is not None and above not in seen:
            seen.add(above)
            yield above
            above = self._above(above)

    def _above(self, document: str) -> str | None:
        if document in self._adopted:
            return self._adopted[document]
        parent = self._parents.get(document)
        return None if parent in self._links else parent

    @property
    def dropped(self) -> list[str]:
        """Return the documents that nobody links any more."""
        was = chain.from_iterable(self._known[name].children for name in self._links if name in self._known)
        return [one for one in was if one not in self._adopted]

    @property
    def moved(self) -> list[str]:
        """Return the documents that get another parent."""
        return [one for one, above in self._adopted.items() if one in self._parents and self._parents[one] != above]

    def drawn(self, texts: Mapping[str, str], below: Mapping[str, Node], *, depth_max: int) -> "Drawn":
        """Return the change of the tree.

        `below` are dropped or moved documents, with all below them. INVALID_CONTENT when it would
        be too deep, or would remove a document that gets a text.
        """
        put: dict[str, Node] = {}
        created: list[str] = []
        for document, linked in self._links.items():
            put[document] = Node(self._above(document), linked)
            for one in linked:
                if one not in self._parents:
                    created.append(one)
                if one not in self._links and self._parents.get(one) != document:
                    put[one] = Node(document, below[one].children if one in below else ())
        removed = list(self._removed(below))
        if self._links.keys() & set(removed):
            raise MemsvcError(Code.INVALID_CONTENT, "Error: content: a document that is given a text would be removed")
        self._check_depth(below, depth_max)
        made = {one: initial(one) for one in created}
        return Drawn(put, tuple(created), tuple(removed), {**made, **texts})

    def _removed(self, below: Mapping[str, Node]) -> Iterator[str]:
        waiting = self.dropped[::-1]
        while waiting:
            document = waiting.pop()
            yield document
            now = self._links.get(document, below[document].children if document in below else ())
            waiting += [one for one in reversed(now) if self._above(one) in (None, document)]

    def _check_depth(self, below: Mapping[str, Node], depth_max: int) -> None:
        for document, linked in self._links.items():
            deep = len(list(self.line(document)))
            fresh = [one for one in linked if one in below or one not in self._parents]
            for link in fresh:
                _check_depth(link, deep + _height(link, below), depth_max)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A change of the tree: written nodes, and created and removed documents in link order.

    `texts` are the new contents of documents that are created or changed.
    """

    put: Mapping[str, Node]
    created: tuple[str, ...]
    removed: tuple[str, ...]
    texts: Mapping[str, str]


def _height(top: str, below: Mapping[str, Node]) -> int:
    """Return how many levels are below a document."""
    height, level = -1, [top]
    while level:
        height += 1
        level = [one for name in level if name in below for one in below[name].children]
    return height


def _refused(how: str, **details: Any) -> MemsvcError:
    return MemsvcError(Code.INVALID_CONTENT, _REFUSED + how, details=details)


@dataclass(frozen=True, slots=True)
class Derived:
    """The tree that texts make: its nodes, and the documents that the root does not reach."""

    nodes: Mapping[str, Node]
    unlinked: tuple[str, ...]


def derived(linked: Mapping[str, tuple[str, ...]]) -> Derived:
    """Return the tree of documents that link each other like this, from the root down.

    Links to missing documents are left out, and so is every link to a document that has a parent.
    """
    nodes: dict[str, Node] = {}
    waiting: list[tuple[str, str | None]] = [(ROOT, None)] if ROOT in linked else []
    placed = {ROOT}
    while waiting:
        document, parent = waiting.pop()
        children = tuple(one for one in linked[document] if one in linked and one not in placed)
        placed.update(children)
        nodes[document] = Node(parent, children)
        waiting += [(child, document) for child in reversed(children)]
    return Derived(nodes, tuple(sorted(linked.keys() - nodes.keys())))


@dataclass(frozen=True, slots=True)
class Planted:
    """A whole new tree: its nodes and texts, created documents, and unlinked ones."""

    nodes: Mapping[str, Node]
    texts: Mapping[str, str]
    created: tuple[str, ...]
    unlinked: tuple[str, ...]


def planted(texts: Mapping[str, str], *, depth_max: int) -> Planted:
    """Return the tree of these texts, one of them the root's.

    INVALID_CONTENT where they make none, or one that is too deep.
    """
    linked = {document: links(text) for document, text in texts.items()}
    made = {one: initial(one) for one in chain.from_iterable(linked.values()) if one not in texts}
    tree = derived(linked | dict.fromkeys(made, ()))
    depth = {ROOT: 0}
    for document, node in tree.nodes.items():  # parents come before their children
        if node.parent is not None:
            depth[document] = depth[node.parent] + 1
            _check_depth(document, depth[document], depth_max)
    for document in tree.nodes:
        for link in linked.get(document, ()):
            if (holder := tree.nodes[link].parent) != document:
                _refuse_second(tree.nodes, document, link, holder)
    return Planted(
        tree.nodes,
        {document: texts[document] if document in texts else made[document] for document in tree.nodes},
        tuple(one for one in made if one in tree.nodes),
        tuple(one for one in tree.unlinked if one in texts),
    )


def _refuse_second(nodes: Mapping[str, Node], document: str, link: str, holder: str | None) -> None:
    above: str | None = document
    while above is not None:
        if above == link:
            raise _refused(" - circular reference detected", parent_id=document, link=link)
        above = nodes[above].parent
    raise _refused("", link=link, other_parent_id=holder)


def _check_depth(link: str, depth: int, depth_max: int) -> None:
    if depth > depth_max:
        raise MemsvcError(
            Code.INVALID_CONTENT,
            f"Error: content: the tree may be {depth_max} levels deep below the root",
            details={"link": link},
        )
