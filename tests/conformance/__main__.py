"""Runs the official suite against the endpoint that users get, and writes docs/conformance.md.

`make conformance` installs what it needs. The fixtures are tools, resources and prompts that are
added to the process: routes, transport, sessions and limits are those of `memsvc serve`.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from tests.conformance.suite import PAGE, SUITE, WIRES, page, results
from tests.e2e.node_tools import installed
from tests.e2e.process import Served

KEY: Final = "conformance"


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Served(Path(folder) / "data", module="tests.conformance.serve") as served,
    ):
        found = {wire: asyncio.run(results(served.port, KEY, wire)) for wire in WIRES}
    PAGE.write_text(page(found, installed(SUITE) or ""))
    for wire, scenarios in found.items():
        passed = sum(each.passed for each in scenarios.values())
        print(f"{wire}: {passed} of {len(scenarios)} scenarios pass")


if __name__ == "__main__":
    main()
