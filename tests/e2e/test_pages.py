"""Web pages of other origins in a real browser: they reach the server where they may, and read what
it answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest
from playwright.sync_api import sync_playwright

from tests.e2e.console.conftest import CHROMIUM, NOWHERE_ELSE
from tests.e2e.process import Served

pytestmark = pytest.mark.slow

CALL: Final = """
async ([url, key, body]) => {
  const answer = await fetch(url, {
    method: "POST",
    headers: {
      "Authorization": `Bearer ${key}`,
      "Content-Type": "application/json",
      "Accept": "application/json, text/event-stream",
      "MCP-Protocol-Version": "2025-11-25",
      "Mcp-Session-Id": "one",
    },
    body: JSON.stringify(body),
  });
  const headers = ["x-request-id", "www-authenticate", "mcp-session-id"].map((name) => answer.headers.get(name));
  return [answer.status, await answer.json(), headers];
}
"""
INITIALIZE: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "page", "version": "1"},
    },
}
LIST: Final = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>a page</title>")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def a_site() -> Iterator[str]:
    """The origin of a site with one page."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_page_of_an_allowed_origin_talks_mcp_and_one_of_another_cannot(data_folder: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("no chromium: install it, or name one in MEMSVC_TEST_CHROMIUM")
    with (
        a_site() as allowed,
        a_site() as foreign,
        Served(
            data_folder, MEMSVC_AUTH__MODE="listed", MEMSVC_LIMITS__ALLOWED_ORIGINS=allowed
        ) as served,
        sync_playwright() as playwright,
    ):
        key = (data_folder / "api-key").read_text().strip()
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", NOWHERE_ELSE]
        )
        tab = browser.new_page()

        def call(body: dict[str, Any], with_key: str = key) -> Any:
            return tab.evaluate(CALL, [f"{served.url}/mcp", with_key, body])

        tab.goto(allowed)
        status, answer, (request_id, _, session) = call(INITIALIZE)
        assert (status, answer["result"]["serverInfo"]["name"]) == (200, "memsvc")
        assert request_id
        assert session
        status, answer, _ = call(LIST)
        assert (
            status,
            "memory_before_turn" in {tool["name"] for tool in answer["result"]["tools"]},
        ) == (200, True)
        status, answer, (_, wanted, _) = call(LIST, "msk_wrong")
        assert (status, answer["code"], wanted) == (401, "PERMISSION_DENIED", "Bearer")
        tab.goto(foreign)
        with pytest.raises(Exception, match="Failed to fetch"):
            call(LIST)
        browser.close()
