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


def blocks(page: str, *languages: str) -> list[str]:
    """Return the blocks of a page in these languages."""
    return [code for language, code in fenced(page) if language in languages]


def fenced(page: str) -> list[tuple[str, str]]:
    """Return the blocks of code of a page, each with its language."""
    return re.findall(r"^```(\w+)\n(.*?)^```", (CHECKOUT / page).read_text("utf-8"), re.M | re.S)


def filled(code: str, url: str, key: str) -> str:
    """Return a block with the server and the key that a reader puts in."""
    return code.replace(URL, url).replace("YOUR_KEY", key)


def steps(page: str) -> list[Step]:
    """Return what a reader of a page does, in order.

    A block in Python or JSON whose first line is a comment with a file name is saved under that name. A
    `text` block right behind one for a shell is its output."""
    found, files = list[Step](), dict[str, str]()
    for language, code in fenced(page):
        if name := re.match(r"# (\S+\.\w+)$", code.partition("\n")[0]):
            files[name[1]] = code
        elif language == "sh":
            found.append(Step(code, files=files))
            files = {}
        elif language == "text" and found and not found[-1].output:
            found[-1].output = code
    return found


def commands_of(page: str) -> Iterator[list[str]]:
    """Yield the words of each `memsvc` command that the page shows, in blocks for a shell and in text."""
    lines = "".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    text = re.sub(r"^```.*?^```", "", (CHECKOUT / page).read_text("utf-8"), flags=re.M | re.S)
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
    """Return whether an output has the lines that a page shows, in their order."""
    shown = [line for line in page.splitlines() if line.strip()]
    patterns = [".*".join(map(re.escape, line.split(ANYTHING))) for line in shown]
    pattern = "".join(r"(?:^.*\n)*?" if each == ".*" else rf"^{each}\n" for each in patterns)
    written = "".join(f"{line.rstrip()}\n" for line in output.splitlines() if line.strip())
    return re.search(pattern, written, re.M) is not None
