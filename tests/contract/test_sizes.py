"""Files and functions stay small enough to be read, and nothing is caught without a reason."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "memsvc"
FILES = sorted(path for path in ROOT.rglob("*.py"))
FILE_LINES_MAX = 300
FUNCTION_LINES_MAX = 70
CATCHES_ALL = re.compile(r"except\s*(?:\(?\s*(?:Base)?Exception\b.*)?:")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_and_its_functions_are_short(path: Path) -> None:
    source = path.read_text("utf-8")
    assert len(source.splitlines()) <= FILE_LINES_MAX
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert long == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_whoever_catches_everything_says_why(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    for number, line in enumerate(lines):
        if CATCHES_ALL.match(line.strip()):
            reason = re.sub(r"^noqa: \w+\s*-?\s*", "", line.partition("#")[2].strip())
            raises_again = any(re.fullmatch(r"\s+raise", below) for below in lines[number + 1 : number + 8])
            assert raises_again or len(reason.split()) >= 3, f"line {number + 1}: {line.strip()}"


def test_there_is_something_to_measure() -> None:
    assert len(FILES) > 40
