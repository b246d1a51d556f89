"""The official conformance suite against the endpoint that users get, with the fixtures that most
scenarios want as tools of it."""

from pathlib import Path

import pytest

from tests.conformance.suite import PAGE, SUITE, VERSION, WIRES, page, results
from tests.e2e.node_tools import installed, needs
from tests.e2e.process import Served, on, typed
from tests.servers import DatabaseUrls

FIXTURE_FREE = {
    "2025-11-25": {
        "server-initialize",
        "ping",
        "tools-list",
        "resources-list",
        "prompts-list",
        "dns-rebinding-protection",
        "server-session-lifecycle",
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


@needs(SUITE)
@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES)
async def test_what_needs_no_fixtures_passes_without_them(shared: Served, wire: str) -> None:
    found = await results(shared.port, f"conformance-on-{wire}", wire)
    assert {name for name in FIXTURE_FREE[wire] if not found[name].passed} == set()


@needs(SUITE)
@pytest.mark.slow
@pytest.mark.skipif(installed(SUITE) != VERSION, reason=f"the page tells of {VERSION}")
async def test_the_page_tells_what_comes_of_it(database_urls: DatabaseUrls, tmp_path: Path) -> None:
    with Served(tmp_path / "data", module="tests.conformance.serve", **on(database_urls)) as served:
        found = {wire: await results(served.port, "conformance", wire) for wire in WIRES}
    assert page(found, VERSION) == PAGE.read_text()


def test_every_failure_on_the_page_is_explained() -> None:
    told = PAGE.read_text()
    assert VERSION in told
    assert "unknown" not in told.partition("Why something fails")[2]


def test_the_server_has_no_mode_for_the_suite() -> None:
    assert "--conformance" not in typed("serve", "--help").stdout
