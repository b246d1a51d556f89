"""Files and functions stay small enough to be read, and nothing is caught without a reason."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "memsvc"
FILES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8") for path in sorted(ROOT.rglob("*.py"))
}
FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
CATCHES_ALL = re.compile(r"except\s*(?:\(?\s*(?:Base)?Exception\b.*)?:")


def too_long(source: str) -> Iterator[str]:
    """Yield what of a file is too long, and how long that is."""
    lines = len(source.splitlines())
    if lines > FILE_LINES_MAX:
        yield f"{lines} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.name}: {lines} lines"


def caught_without_a_reason(source: str) -> Iterator[str]:
    """Yield each line that catches everything, raises nothing again and says why neither itself nor
    just above."""
    lines = source.splitlines()
    for number, line in enumerate(lines):
        if CATCHES_ALL.match(line.strip()):
            above = lines[number - 1].strip() if number else ""
            told = line.partition("#")[2] or (
                above.removeprefix("#") if above.startswith("#") else ""
            )
            reason = re.sub(r"^noqa: \w+\s*-?\s*", "", told.strip())
            raises_again = any(
                re.fullmatch(r"\s+raise", below) for below in lines[number + 1 : number + 8]
            )
            if not raises_again and len(reason.split()) < 3:
                yield f"line {number + 1}: {line.strip()}"


def test_files_and_their_functions_are_short() -> None:
    found = [f"{path}: {each}" for path, source in FILES.items() for each in too_long(source)]
    assert not found, "\n".join(found)


def test_whoever_catches_everything_says_why() -> None:
    found = [
        f"{path}: {each}"
        for path, source in FILES.items()
        for each in caught_without_a_reason(source)
    ]
    assert not found, "\n".join(found)


def test_there_is_something_to_measure() -> None:
    assert len(FILES) > 40


def test_what_is_too_long_or_caught_without_a_reason_is_found() -> None:
    function = "def long():\n" + "    pass\n" * FUNCTION_LINES_MAX
    assert list(too_long(function)) == [f"long: {FUNCTION_LINES_MAX + 1} lines"]
    assert list(too_long("pass\n" * (FILE_LINES_MAX + 1))) == [f"{FILE_LINES_MAX + 1} lines"]
    caught = "try:\n    pass\nexcept Exception:{}\n    {}\n"
    assert list(caught_without_a_reason(caught.format("", "pass"))) == ["line 3: except Exception:"]
    for reason, then in (("  # noqa: BLE001 - told to the caller", "pass"), ("", "raise")):
        assert list(caught_without_a_reason(caught.format(reason, then))) == []
    said_above = caught.format("", "pass").replace("except", "# told to the caller\nexcept")
    assert list(caught_without_a_reason(said_above)) == []
    assert list(caught_without_a_reason(said_above.replace("told to the ", ""))) == [
        "line 4: except Exception:"
    ]
