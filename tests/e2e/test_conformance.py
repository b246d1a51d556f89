"""The official conformance suite against the service, as it is and with the fixtures that most
scenarios want."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.e2e.keyed import keyed
from tests.e2e.node_tools import folder, installed, needs, run_node
from tests.e2e.process import Served, on, run
from tests.servers import DatabaseUrls

SUITE = "@modelcontextprotocol/conformance"
NEWER_SINCE = "0.2"
"""The first version of the suite that knows the wire of 2026."""

FIXTURE_FREE = {
    "2025-11-25": {
        "server-initialize",
        "ping",
        "tools-list",
        "resources-list",
        "prompts-list",
        "dns-rebinding-protection",
    },
    "2026-07-28": {
        "tools-list",
        "resources-list",
        "prompts-list",
        "sep-2164-resource-not-found",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
        "input-required-result-unsupported-methods",
    },
}
"""What a server has to do that nobody prepared."""
NOT_OFFERED = re.compile(r"tasks-")
"""Scenarios of an extension of the protocol that this service does not announce
(docs/conformance.md)."""

pytestmark = [needs(SUITE), pytest.mark.slow]


async def _checked(url_port: int, key: str, wire: str) -> dict[str, bool]:
    """Whether each scenario of a wire has passed."""
    suite = folder() / "node_modules" / SUITE / "dist" / "index.js"
    newer = (installed(SUITE) or "") >= NEWER_SINCE
    which = (
        ["--requirements", wire]
        if newer and wire == "2026-07-28"
        else ["--suite", "all", "--spec-version", wire]
    )
    async with keyed(url_port, key) as port:
        arguments = (str(suite), "server", "--url", f"http://127.0.0.1:{port}/mcp", *which)
        done = await asyncio.to_thread(run_node, *arguments)
    told = done.stdout.partition("=== SUMMARY ===")[2]
    found = re.findall(r"^\s*([✓✗]) ([a-z0-9-]+)", told, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return {name: mark == "✓" for mark, name in found}


def _wires() -> list[str]:
    newer = (installed(SUITE) or "") >= NEWER_SINCE
    return ["2025-11-25", *(["2026-07-28"] if newer else [])]


@pytest.mark.parametrize("wire", _wires())
async def test_what_needs_no_fixtures_passes_without_them(shared: Served, wire: str) -> None:
    passed = await _checked(shared.port, f"conformance-on-{wire}", wire)
    assert {name for name in FIXTURE_FREE[wire] if not passed[name]} == set()


@pytest.mark.parametrize("wire", _wires())
async def test_all_else_passes_with_them(
    database_urls: DatabaseUrls, tmp_path: Path, wire: str
) -> None:
    with Served(tmp_path / "data", "--conformance", **on(database_urls)) as served:
        passed = await _checked(served.port, "conformance", wire)
        assert "FIXTURES OF THE CONFORMANCE SUITE" in served.log()
    assert {
        name for name, well in passed.items() if not well and not NOT_OFFERED.match(name)
    } == set()


def test_fixtures_are_for_this_machine_alone(tmp_path: Path) -> None:
    refused = run("serve", "--conformance", "--host", "0.0.0.0", "--data-dir", str(tmp_path))
    assert refused.returncode == 1
    assert "--conformance is for this machine alone" in refused.stderr
