"""The blocks of code that pages show, as a reader takes them over."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.e2e.process import CHECKOUT

README, QUICKSTART, OPERATIONS = "README.md", "docs/quickstart.md", "docs/operations.md"
TUTORIAL, HOSTS, TASKS = "docs/tutorial.md", "docs/hosts.md", "docs/tasks.md"
URL = "http://127.0.0.1:8080"
ANYTHING: Final = "\u2026"
"""What stands in a page's outputs for text that differs each time."""


@dataclass(slots=True)
class Step:
    """A block for a shell, the output that the page shows for it, and files to save before it."""

    code: str
    output: str = ""
    files: dict[str, str] = field(default_factory=dict)


def _read(page: str) -> str:
    return (CHECKOUT / page).read_text("utf-8")


def blocks(page: str, *languages: str) -> list[str]:
    """Return the blocks of a page in these languages."""
    return [code for language, code in fenced(page) if language in languages]


def fenced(page: str) -> list[tuple[str, str]]:
    """Return the blocks of code of a page, each with its language."""
    return re.findall(r"^```(\w+)\n(.*?)^```", _read(page), re.M | re.S)


def filled(code: str, url: str, key: str) -> str:
    """Return a block with the server and the key that a reader puts in."""
    return code.replace(URL, url).replace("YOUR_KEY", key)


def steps(page: str) -> list[Step]:
    """Return what a reader of a page does, in order.

    A block whose first line is a comment with a file name is saved under that name. A `text` block
    that follows one for a shell, without a heading between, is its output."""
    found, files = list[Step](), dict[str, str]()
    printed = False
    parts = re.findall(r"^```(\w+)\n(.*?)^```|^(#+ )", _read(page), re.M | re.S)
    for language, code, heading in parts:
        if heading:
            printed = True
        elif name := re.match(r"# (\S+\.\w+)$", code.partition("\n")[0]):
            files[name[1]] = code
        elif language == "sh":
            found.append(Step(code, files=files))
            files, printed = {}, False
        elif language == "text" and not printed:
            found[-1].output, printed = code, True
    return found


def commands_of(page: str) -> Iterator[list[str]]:
    """Yield the words of each `memsvc` command that the page shows, in blocks for a shell and in text."""
    lines = "".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    text = re.sub(r"^```.*?^```", "", _read(page), flags=re.M | re.S)
    spans = [span.replace("\n", " ") for span in re.findall(r"`(memsvc [^`\[]+)`", text)]
    for line in [*lines, *spans]:
        for part in re.split(r"\s(?:\||&&|\|\|)\s|\$\(", line):
            whole = part.rstrip(") ") if part.count("(") < part.count(")") else part
            try:
                words = shlex.split(whole, comments=True)
            except ValueError:  # a quote that ends in another part or line
                continue
            if words and words[0].rpartition("/")[2] == "memsvc":
                yield words[1:]


def is_shown(output: str, page: str) -> bool:
    """Return whether an output has the lines that a page shows, in their order.

    Blanks and empty lines do not count. A line of ANYTHING alone stands for any number of lines."""
    pattern = ""
    for line in _lines(page):
        shown = ".*".join(map(re.escape, line.split(ANYTHING)))
        pattern += r"(?:^.*\n)*?" if line == ANYTHING else rf"^{shown}\n"
    return re.search(pattern, "".join(f"{line}\n" for line in _lines(output)), re.M) is not None


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]
