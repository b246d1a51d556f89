"""Statements as PostgreSQL's own parser understands them: trees of dictionaries, in which `@` says
what a node is."""

from collections.abc import Iterable, Iterator
from typing import Any

Node = dict[str, Any]


def below(node: Any) -> Iterator[Node]:
    """A node and all that is in it."""
    if isinstance(node, dict):
        if "@" in node:
            yield node
        for inner in node.values():
            yield from below(inner)
    elif isinstance(node, (list, tuple)):
        for inner in node:
            yield from below(inner)


def parts_of(query: Node) -> list[Node]:
    """The parts of its WITH."""
    return list(query.get("withClause", {}).get("ctes", ()))


def body(query: Node) -> Node:
    """It without its WITH."""
    return {name: part for name, part in query.items() if name != "withClause"}


def tables_in(node: Any, made: frozenset[str]) -> Iterator[str]:
    """The tables that are named, without what WITH made."""
    if isinstance(node, dict):
        if node.get("@") == "RangeVar" and node["relname"] not in made:
            yield node["relname"]
        made |= {part["ctename"] for part in parts_of(node)}
        for inner in node.values():
            yield from tables_in(inner, made)
    elif isinstance(node, (list, tuple)):
        for inner in node:
            yield from tables_in(inner, made)


def queries_in(node: Any) -> Iterator[Node]:
    """The queries in expressions, without those in them, and those in FROM."""
    if isinstance(node, dict):
        if node.get("@") == "SubLink":
            yield node["subselect"]
            yield from queries_in(node.get("testexpr"))
        elif node.get("@") != "RangeSubselect":
            for inner in node.values():
                yield from queries_in(inner)
    elif isinstance(node, (list, tuple)):
        for inner in node:
            yield from queries_in(inner)


def columns_of(query: Node) -> list[Node]:
    """What a query selects."""
    while "larg" in query:
        query = query["larg"]
    return list(query.get("targetList", ()))


def times(name: str, parts: Iterable[tuple[str, Node]]) -> int:
    """How often a name of WITH is read."""
    return sum(
        one["@"] == "RangeVar" and one["relname"] == name
        for _, part in parts
        for one in below(part)
    )


def column_of(node: Any) -> tuple[str | None, str] | None:
    """The alias, if there is one, and the name of a column; None for anything else."""
    if not isinstance(node, dict) or node.get("@") != "ColumnRef":
        return None
    names = [field.get("sval") for field in node["fields"]]
    return None if None in names else (names[-2] if len(names) > 1 else None, str(names[-1]))


def is_owner(node: Any) -> bool:
    """Whether it is $1."""
    while isinstance(node, dict) and node.get("@") == "TypeCast":
        node = node["arg"]
    return isinstance(node, dict) and node.get("@") == "ParamRef" and node.get("number") == 1


def conditions(node: Any) -> Iterator[Node]:
    """The conditions that all have to hold."""
    if not isinstance(node, dict):
        return
    if node.get("@") == "BoolExpr" and node["boolop"]["name"] == "AND_EXPR":
        for inner in node["args"]:
            yield from conditions(inner)
    else:
        yield node


def adds_interval(expression: Node) -> bool:
    """Whether something is added to, or taken from, something, of which one is an interval."""
    if expression["name"][0].get("sval") not in ("+", "-"):
        return False
    for one in below([expression.get("lexpr"), expression["rexpr"]]):
        if one["@"] == "TypeCast" and one["typeName"]["names"][-1]["sval"] == "interval":
            return True
        if one["@"] == "FuncCall" and one["funcname"][-1]["sval"] == "make_interval":
            return True
    return False
