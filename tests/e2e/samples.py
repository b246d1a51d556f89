"""The blocks of code that pages show, as a reader takes them over."""

import re

from tests.e2e.process import CHECKOUT

README, QUICKSTART, OPERATIONS = "README.md", "docs/quickstart.md", "docs/operations.md"
URL = "http://127.0.0.1:8080"


def blocks(page: str, *languages: str) -> list[str]:
    """The blocks of a page in these languages."""
    return [code for language, code in fenced(page) if language in languages]


def fenced(page: str) -> list[tuple[str, str]]:
    """The blocks of code of a page, each with its language."""
    return re.findall(r"^```(\w+)\n(.*?)^```", (CHECKOUT / page).read_text("utf-8"), re.M | re.S)


def filled(code: str, url: str, key: str) -> str:
    """A block with the server and the key that a reader puts in."""
    return code.replace(URL, url).replace("YOUR_KEY", key)
