"""Members set and removed in the text of a configuration file, all else kept as it was written."""

import json
import re
from typing import Any, Final, NamedTuple

Path = tuple[str, ...]

INDENT: Final = "  "
BEGIN: Final = "memsvc: begin (by `memsvc install`)"
END: Final = "memsvc: end"

_SPACE: Final = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_INDENT: Final = re.compile(r"\s*\{[ \t]*\n([ \t]+)\S")


class JsonNode(NamedTuple):
    """A JSON value in a text, from `start` to `end`; of an object, the children have names."""

    start: int
    end: int
    value: Any
    children: "list[Child]"


class Child(NamedTuple):
    """A member or element: its name, where it starts (with the name), and its value."""

    name: str
    start: int
    node: JsonNode


def parse_json(text: str) -> JsonNode:
    """Return the root of a JSON text, which may have comments and trailing commas.

    Raises ValueError for what is no JSON object."""
    root, end = _node(text, _skip(text, 0))
    if _skip(text, end) != len(text) or not isinstance(root.value, dict):
        raise ValueError("no JSON object")
    return root


def set_member(text: str, path: Path, value: Any) -> str:
    """Return the JSON text with this value at a path; missing objects on it are made.

    Raises ValueError where something on the path is no object."""
    node, depth = parse_json(text), 0
    for depth, name in enumerate(path):
        child = next((child for child in node.children if child.name == name), None)
        if child is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _inserted(text, node, f"{json.dumps(name)}: ", value, depth)
        node = child.node
        if depth + 1 < len(path) and not isinstance(node.value, dict):
            raise ValueError(f"{name} is no object")
    return text[: node.start] + _written(text, value, len(path)) + text[node.end :]


def add_element(text: str, path: Path, value: Any) -> str:
    """Return the JSON text with a value at the end of the list at a path, which is made."""
    node = find(text, path)
    if node is None:
        return set_member(text, path, [value])
    if not isinstance(node.value, list):
        raise ValueError(f"{path[-1]} is no list")
    return _inserted(text, node, "", value, len(path))


def remove(text: str, path: Path, element: int | None = None) -> str:
    """Return the JSON text without a member or, of the list there, without an element."""
    parent = find(text, path[:-1] if element is None else path)
    if parent is None:
        return text
    names = [child.name for child in parent.children]
    if element is None:
        element = names.index(path[-1]) if path[-1] in names else len(names)
    if element >= len(names):
        return text
    child, after = parent.children[element], parent.children[element + 1 :]
    if element:
        start, end = parent.children[element - 1].node.end, child.node.end
    elif after:
        start, end = child.start, after[0].start
    else:
        start, end = parent.start + 1, parent.end - 1
        if text[child.node.end : end].strip(" \t\r\n,") or text[start : child.start].strip():
            start, end = child.start, child.node.end  # comments of others stay
    return text[:start] + text[end:]


def find(text: str, path: Path) -> JsonNode | None:
    """Return the node at a path of a JSON text."""
    node: JsonNode | None = parse_json(text)
    for name in path:
        children = node.children if node is not None and isinstance(node.value, dict) else []
        node = next((child.node for child in children if child.name == name), None)
    return node


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


def _inserted(text: str, parent: JsonNode, name: str, value: Any, depth: int) -> str:
    """Return the text with one more child at the end of an object or list."""
    step = _step(text)
    line = f"\n{step * (depth + 1)}"
    child = f"{line}{name}{_written(text, value, depth + 1)}"
    if parent.children:
        end = parent.children[-1].node.end
        comma = re.match(_SPACE.pattern + ",", text[end:], re.DOTALL)
        if comma:  # a trailing one, which stays one
            return text[: end + comma.end()] + f"{child}," + text[end + comma.end() :]
        return f"{text[:end]},{child}{text[end:]}"
    inner = text[parent.start + 1 : parent.end - 1].rstrip()
    close = f"\n{step * depth}"
    return f"{text[: parent.start + 1]}{inner}{child}{close}{text[parent.end - 1 :]}"


def _written(text: str, value: Any, depth: int) -> str:
    step = _step(text)
    return json.dumps(value, indent=step, ensure_ascii=False).replace("\n", f"\n{step * depth}")


def _step(text: str) -> str:
    found = _INDENT.match(text)
    return found[1] if found else INDENT


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _node(text: str, at: int) -> tuple[JsonNode, int]:
    opening = text[at : at + 1]
    if opening not in ("{", "["):
        found = _STRING.match(text, at) or _SCALAR.match(text, at)
        if not found:
            raise ValueError(f"no JSON at character {at}")
        return JsonNode(at, found.end(), json.loads(found[0]), []), found.end()
    start, closing = at, {"{": "}", "[": "]"}[opening]
    children: list[Child] = []
    at = _skip(text, at + 1)
    while text[at : at + 1] != closing:
        begin, name = at, ""
        if opening == "{":
            found = _STRING.match(text, at)
            colon = _skip(text, found.end()) if found else at
            if not found or text[colon : colon + 1] != ":":
                raise ValueError(f"no member at character {at}")
            name, at = json.loads(found[0]), _skip(text, colon + 1)
        node, at = _node(text, at)
        children.append(Child(name, begin, node))
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != closing:
            raise ValueError(f"no comma at character {at}")
    value: Any = [child.node.value for child in children]
    if opening == "{":
        value = {child.name: child.node.value for child in children}
    return JsonNode(start, at + 1, value, children), at + 1
