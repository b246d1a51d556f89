"""Members set and removed in the text of a configuration file, all else kept as it was written."""

import json
import re
from typing import Any, Final, NamedTuple

Path = tuple[str, ...]

INDENT: Final = "  "
BEGIN: Final = "memsvc: begin (by `memsvc install`)"
END: Final = "memsvc: end"

_SPACE: Final = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_INDENT: Final = re.compile(r"\s*\{[ \t]*\n([ \t]+)\S")
_CLOSING: Final = {"{": "}", "[": "]"}
_DECODER: Final = json.JSONDecoder()


class JsonNode(NamedTuple):
    """A JSON value in a text, from `start` to `end`; a member begins with its name."""

    name: str
    begin: int
    start: int
    end: int
    value: Any
    children: "list[JsonNode]"


def parse_json(text: str) -> JsonNode:
    """Return the root of a JSON text, which may have comments and trailing commas.

    Raises ValueError for what is no JSON object."""
    root = _node(text, _skip(text, 0), named=False)
    if _skip(text, root.end) != len(text) or not isinstance(root.value, dict):
        raise ValueError("no JSON object")
    return root


def find(text: str, path: Path) -> JsonNode | None:
    """Return the node at a path of a JSON text."""
    nodes = _nodes(text, path)
    return nodes[-1] if len(nodes) > len(path) else None


def first_missing(text: str, path: Path) -> Path:
    """Return the beginning of a path that is not in the text."""
    return path[: len(_nodes(text, path))]


def set_member(text: str, path: Path, value: Any) -> str:
    """Return the JSON text with this value at a path; missing objects on it are made.

    Raises ValueError where something on the path is no object."""
    *parents, last = _nodes(text, path)
    if len(parents) == len(path):
        return text[: last.start] + _written(text, value, len(path)) + text[last.end :]
    if not isinstance(last.value, dict):
        raise ValueError(f"{last.name} is no object")
    name, *missing = path[len(parents) :]
    for each in reversed(missing):
        value = {each: value}
    return _inserted(text, last, f"{json.dumps(name)}: ", value, len(parents))


def add_element(text: str, path: Path, value: Any) -> str:
    """Return the JSON text with a value at the end of the list at a path, which is made."""
    node = find(text, path)
    if node is None:
        return set_member(text, path, [value])
    return _inserted(text, node, "", value, len(path))


def remove(text: str, path: Path, element: int | None = None) -> str:
    """Return the JSON text without a member or, of the list there, without an element."""
    *parents, child = _nodes(text, path)
    if element is not None:
        parents, child = [child], child.children[element]
    elif len(parents) < len(path):
        return text
    parent = parents[-1]
    number = parent.children.index(child)
    after = parent.children[number + 1 :]
    if number:
        start, end = parent.children[number - 1].end, child.end
    elif after:
        start, end = child.begin, after[0].begin
    else:
        start, end = parent.start + 1, parent.end - 1
        if text[child.end : end].strip(" \t\r\n,") or text[start : child.begin].strip():
            start, end = child.begin, child.end  # comments of others stay
    return text[:start] + text[end:]


def set_block(text: str, lines: str, comment: tuple[str, str]) -> str:
    """Return the text with these lines between marks at its end, or where such a block is."""
    opening, closing = comment
    block = f"{opening}{BEGIN}{closing}\n{lines}\n{opening}{END}{closing}"
    if found := _block(text, comment):
        return text[: found.start()] + block + text[found.end() :]
    if text and not text.endswith("\n"):
        return f"{text}\n{block}"
    return f"{text}{block}\n"


def remove_block(text: str, comment: tuple[str, str]) -> str:
    """Return the text without the block between marks."""
    found = _block(text, comment)
    if not found:
        return text
    before, after = text[: found.start()], text[found.end() :]
    if not after:  # the line before had no end
        return before.removesuffix("\n")
    return before + after.removeprefix("\n")


def _block(text: str, comment: tuple[str, str]) -> re.Match[str] | None:
    first, last = (re.escape(f"{comment[0]}{mark}{comment[1]}") for mark in (BEGIN, END))
    return re.search(f"{first}\n.*?{last}", text, re.DOTALL)


def _nodes(text: str, path: Path) -> list[JsonNode]:
    """Return the nodes on a path, from the root to the last one that is there."""
    nodes = [parse_json(text)]
    for name in path:
        children = nodes[-1].children if isinstance(nodes[-1].value, dict) else []
        found = [child for child in children if child.name == name]
        if not found:
            break
        nodes.append(found[0])
    return nodes


def _inserted(text: str, parent: JsonNode, name: str, value: Any, depth: int) -> str:
    """Return the text with one more child at the end of an object or list."""
    line = f"\n{_step(text) * depth}"
    child = f"{line}{_step(text)}{name}{_written(text, value, depth + 1)}"
    if not parent.children:
        end = parent.end - 1
        return f"{text[:end].rstrip()}{child}{line}{text[end:]}"
    end = parent.children[-1].end
    comma = _skip(text, end)
    if text[comma] == ",":  # a trailing one, which stays one
        return f"{text[: comma + 1]}{child},{text[comma + 1 :]}"
    return f"{text[:end]},{child}{text[end:]}"


def _written(text: str, value: Any, depth: int) -> str:
    step = _step(text)
    return json.dumps(value, indent=step, ensure_ascii=False).replace("\n", f"\n{step * depth}")


def _step(text: str) -> str:
    found = _INDENT.match(text)
    return found[1] if found else INDENT


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _node(text: str, at: int, *, named: bool) -> JsonNode:
    begin, name = at, ""
    if named:
        name, at = _DECODER.raw_decode(text, begin)
        at = _skip(text, at)
        if not isinstance(name, str) or text[at : at + 1] != ":":
            raise ValueError(f"no member at character {begin}")
        at = _skip(text, at + 1)
    start, opening = at, text[at : at + 1]
    if opening not in _CLOSING:
        value, end = _DECODER.raw_decode(text, start)
        return JsonNode(name, begin, start, end, value, [])
    children: list[JsonNode] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != _CLOSING[opening]:
        child = _node(text, at, named=opening == "{")
        children.append(child)
        at = _skip(text, child.end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != _CLOSING[opening]:
            raise ValueError(f"no comma at character {at}")
    value = [child.value for child in children]
    if opening == "{":
        value = {child.name: child.value for child in children}
    return JsonNode(name, begin, start, at + 1, value, children)
