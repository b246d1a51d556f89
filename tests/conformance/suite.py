"""A run of the official suite, and the page that tells of it."""

import asyncio
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.e2e.keyed import keyed
from tests.e2e.node_tools import folder, run_node
from tests.e2e.process import CHECKOUT

SUITE: Final = "@modelcontextprotocol/conformance"
VERSION: Final = "0.2.0-alpha.12"
WIRES: Final = ("2025-11-25", "2026-07-28")
PAGE: Final = CHECKOUT / "docs" / "conformance.md"
_LINE = re.compile(r"^([✓✗]) ([a-z0-9-]+): (\d+) passed, (\d+) failed", re.MULTILINE)

WHY: Final[Mapping[str, str]] = {
    r"tasks-": "an extension that memsvc does not announce; no call outlives its request",
    r".*logging": "the protocol has given it up",
    r".*sampling": "the protocol has given it up, and memsvc asks no client's model",
}
"""Why what fails does, by the scenario's name."""

_TEXT: Final = """\
# Conformance

For people who check MCP compatibility. `make conformance` ran the official suite
`{suite}` {version} against `/mcp` of `memsvc serve`, and wrote this page.
The tools, resources and prompts that scenarios want come from `tests/conformance`; all else is what
users get. It needs node 22 and npm, and is no part of the suite that CI runs.

| wire | scenarios | checks passed | failed |
| --- | --- | --- | --- |
{totals}

| scenario | {wires} |
| --- |{columns}
{rows}

Why something fails:

{why}
"""


class Scenario(NamedTuple):
    """How many checks of a scenario passed, and how many did not."""

    passed: bool
    checks: int
    failures: int


async def results(port: int, key: str, wire: str) -> dict[str, Scenario]:
    """What came of each scenario of a wire, of a server on this port."""
    suite = folder() / "node_modules" / SUITE / "dist" / "index.js"
    async with keyed(port, key) as keyed_port:
        url = f"http://127.0.0.1:{keyed_port}/mcp"
        done = await asyncio.to_thread(
            run_node, str(suite), "server", "--url", url, "--requirements", wire
        )
    found = _LINE.findall(done.stdout.partition("=== SUMMARY ===")[2])
    assert found, done.stdout + done.stderr
    return {
        name: Scenario(mark == "✓", int(passed), int(failed))
        for mark, name, passed, failed in found
    }


def page(found: Mapping[str, Mapping[str, Scenario]], version: str) -> str:
    """The page of these results, by wire."""
    names = dict.fromkeys(name for scenarios in found.values() for name in scenarios)
    failed = [
        name
        for name in names
        if any(name in each and not each[name].passed for each in found.values())
    ]
    return _TEXT.format(
        suite=SUITE,
        version=version,
        totals="\n".join(_total(wire, scenarios) for wire, scenarios in found.items()),
        wires=" | ".join(found),
        columns=" --- |" * len(found),
        rows="\n".join(
            f"| {name} | {' | '.join(_mark(each.get(name)) for each in found.values())} |"
            for name in names
        ),
        why="\n".join(f"- {line}" for line in _reasons(failed)),
    )


def _total(wire: str, scenarios: Mapping[str, Scenario]) -> str:
    every = scenarios.values()
    passed = sum(each.passed for each in every)
    checks, failures = (sum(each[place] for each in every) for place in (1, 2))
    return f"| {wire} | {passed} of {len(scenarios)} pass | {checks} | {failures} |"


def _mark(scenario: Scenario | None) -> str:
    if scenario is None:
        return "-"
    if scenario.passed and not scenario.checks:
        return "no checks"
    return "pass" if scenario.passed else f"{scenario.failures} failed"


def _reasons(failed: list[str]) -> list[str]:
    named: dict[str, list[str]] = {}
    for name in failed:
        reason = next((why for pattern, why in WHY.items() if re.match(pattern, name)), "unknown")
        named.setdefault(reason, []).append(f"`{name}`")
    return [f"{', '.join(names)}: {reason}." for reason, names in named.items()]
