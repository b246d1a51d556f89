"""The statements of the product: those that stand in its source, and those that run while it is
tested."""

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

import memsvc.store
from memsvc.store.database import Database, Tx
from tests.citus_rules import broadcasts, faults, not_renamed

STORE: Final = Path(memsvc.store.__file__).parent
RUNS: Final = {
    Tx: ("fetch", "fetch_prepared", "fetchrow", "fetchval", "execute", "execute_each", "unbound"),
    Database: ("registry",),
}
READS: Final = {"fetch_column", "fetch_pairs", "fetch_bool", "fetch_int"}  # by one of the above
READS_AS: Final = {"fetch_as", "fetch_with", "fetchrow_as"}  # the statement is the second argument
NAMES: Final = frozenset(name for names in RUNS.values() for name in names) | READS | READS_AS


def written() -> Iterator[tuple[str, str]]:
    """Every statement of the store that stands there whole, or is made of what its module knows,
    with the module and the function that run it. What is made of arguments is found as it runs."""
    for file in sorted(STORE.glob("*.py")):
        module = vars(import_module(f"memsvc.store.{file.stem}"))
        for name, node in _named(ast.parse(file.read_text("utf-8")), ""):
            if not (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
            ):
                continue
            if node.func.attr not in NAMES:
                continue
            try:
                given = node.args[node.func.attr in READS_AS]
                sql = eval(compile(ast.Expression(given), file.name, "eval"), dict(module))
            except NameError:
                continue
            if isinstance(sql, str):
                yield f"{file.stem}.{name}", sql


def _named(node: ast.AST, name: str) -> Iterator[tuple[str, ast.AST]]:
    """A node and all below it, each with the innermost function that it is in."""
    yield name, node
    for inner in ast.iter_child_nodes(node):
        yield from _named(
            inner, node.name if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else name
        )


class Watch:
    """Notes the statements that the product runs, each text once; what is wrong with new ones is
    told once."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._seen: set[str] = set()
        self._new: list[tuple[str, str]] = []
        self._prepared: set[str] = set()
        for kind, names in RUNS.items():
            for name in names:
                patch.setattr(kind, name, self._watched(getattr(kind, name)))

    def _watched(self, run: Any) -> Any:
        def watched(on: Any, sql: str, *arguments: Any) -> Any:
            if run.__name__ == "fetch_prepared":
                self._prepared.add(sql)
            self._note(sql, sys._getframe(1))
            return run(on, sql, *arguments)

        return watched

    def _note(self, sql: str, caller: FrameType) -> None:
        if sql not in self._seen and str(caller.f_globals.get("__name__", "")).startswith(
            "memsvc."
        ):
            self._seen.add(sql)
            module = str(caller.f_globals["__name__"]).rpartition(".")[2]
            self._new.append((f"{module}.{caller.f_code.co_name}", sql))

    def faults(self) -> list[str]:
        """What Citus could not run of what ran since this was asked before."""
        new, self._new = self._new, []
        return [
            f"{place}: {fault}: {sql}"
            for place, sql in new
            for fault in (
                *faults(sql),
                *broadcasts(sql),
                *(not_renamed(sql) if sql in self._prepared else ()),
            )
        ]
