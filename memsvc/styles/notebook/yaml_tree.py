"""A tree as YAML in block style, as serde_yaml 0.9 (over libyaml) writes nested maps and strings.

Written here because agents compare the text itself: PyYAML quotes other strings, and recurses. Its
maps have one key, its strings are plain; what readers of YAML 1.1 alone take for a number, a date
or a truth value is quoted too, which serde_yaml leaves bare.
"""

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final

_KEYWORDS: Final = frozenset(
    {"null", "Null", "NULL", "~", "true", "True", "TRUE", "false", "False", "FALSE"}
)
_OF_1_1: Final = re.compile(
    r"(?i:y|yes|n|no|on|off)|<<|=|[+-]?0b[01_]+|[+-]?0x[0-9a-fA-F_]+"
    r"|[+-]?(?:[0-9][0-9_]*(?::[0-5]?[0-9])*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-][0-9]+)?"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?"
)
"""Texts that YAML 1.1 reads as something else than a string, beyond those of 1.2."""
_FLOAT_CONSTANT: Final = re.compile(r"[+-]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)|\+\.(?:nan|NaN|NAN)")
_BASE_NUMBER: Final = re.compile(r"[+-]?(?:0x[0-9a-fA-F]{1,32}|0o[0-7]+|0b[01]+)")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NOT_FIRST: Final = re.compile(r"[#,\[\]{}&*!|>'\"%@`]|[-?:](?: |\Z)|---|\.\.\.")
_NOT_WITHIN: Final = re.compile(r":(?: |\Z)| #")
_CONTROL_CHAR: Final = re.compile("[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
_ESCAPED: Final = re.compile('[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]|["\\\\]')


def block_style(root: str, children: Mapping[str, Sequence[str]]) -> str:
    """Return the tree from a root down, children in order; a leaf is a plain line."""
    lines = []
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        child_nodes = children.get(node, ())
        mark = "  " * (depth - 1) + "- " if depth else ""
        lines.append(f"{mark}{scalar(node)}{':' if child_nodes else ''}\n")
        waiting += [(child, depth + 1) for child in reversed(child_nodes)]
    return "".join(lines)


def scalar(text: str) -> str:
    """Return a one-line string in block style: plain if unambiguous, else quoted.

    Characters beyond the basic plane are escaped, as libyaml does.
    """
    if _CONTROL_CHAR.search(text):
        return '"' + _ESCAPED.sub(lambda found: _escape(found[0]), text) + '"'
    if _is_other_scalar(text) or _NOT_FIRST.match(text) or _NOT_WITHIN.search(text):
        return "'" + text.replace("'", "''") + "'"
    return text


def _is_other_scalar(text: str) -> bool:
    if (
        text in _KEYWORDS
        or _OF_1_1.fullmatch(text)
        or _FLOAT_CONSTANT.fullmatch(text)
        or _BASE_NUMBER.fullmatch(text)
    ):
        return True
    return _DECIMAL.fullmatch(text) is not None and isfinite(float(text))


def _escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    code = ord(character)
    return (
        f"\\x{code:02X}"
        if code <= 0xFF
        else f"\\u{code:04X}"
        if code <= 0xFFFF
        else f"\\U{code:08X}"
    )
