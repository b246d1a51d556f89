"""A browser context that may go to the server alone, and notes whatever it complains of."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

AXE = (Path(__file__).parent / "vendored" / "axe.min.js").read_text(encoding="utf-8")
STANDARDS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 420, "height": 800}

WATCH = """
window.__shift = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) window.__shift += one.value;
}).observe({type: "layout-shift", buffered: true});
document.addEventListener("securitypolicyviolation", (event) =>
  console.error("refused by policy: " + event.violatedDirective + " " + event.blockedURI));
"""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A part of a page as a screen reader says it; `level` is that of a heading, 0 for anything
    else."""

    role: str
    name: str
    level: int


@dataclass
class Seen:
    """A tab, its context, and what went wrong in it. `base` is where its project's pages are; a
    question is answered with yes where the test `agrees`."""

    context: Any
    tab: Any
    url: str
    base: str = ""
    complaints: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()
    agrees: bool = False
    asked: list[str] = field(default_factory=list)

    def as_new(self) -> None:
        """Wide, light, and nothing complained of."""
        self.complaints.clear()
        self.expected, self.agrees = (), False
        self.asked.clear()
        self.tab.set_viewport_size(WIDE)
        self.tab.emulate_media(color_scheme="light")

    def sign_in(self, key: str, tab: Any = None) -> str:
        """Type a key at the door; the address of the pages of the first project."""
        tab = tab or self.tab
        tab.goto(f"{self.url}/console/")
        tab.fill("#key", key)
        with tab.expect_navigation():
            tab.press("#key", "Enter")
        base: str = tab.url.partition("?")[0]
        self.base = self.base or base
        return base

    def address(self, place: str, **query: str) -> str:
        """Of a page of the project."""
        return f"{self.base}{place}?{urlencode(query)}" if query else f"{self.base}{place}"

    def go(self, place: str, **query: str) -> Any:
        """Open a page; the tab that shows it."""
        self.tab.goto(self.address(place, **query))
        return self.tab

    def shifted(self) -> float:
        """How much of the page has moved since it was opened."""
        moved: float = self.tab.evaluate("window.__shift")
        return moved

    def barriers(self, *rules: str) -> list[str]:
        """What would keep somebody from using the page, by axe, of those that are serious or
        critical."""
        only = {"type": "rule", "values": rules} if rules else {"type": "tag", "values": STANDARDS}
        if not self.tab.evaluate("'axe' in window"):
            self.tab.evaluate(AXE)
        found = self.tab.evaluate(
            "(only) => axe.run(document, {resultTypes: ['violations'], runOnly: only})", only
        )
        return [
            f"{one['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"][:3]
        ]

    def spoken(self) -> list[Spoken]:
        """The page as a screen reader is told of it, in order: the tree that Chromium makes for
        it."""
        wire = self.context.new_cdp_session(self.tab)
        try:
            told = wire.send("Accessibility.getFullAXTree")["nodes"]
        finally:
            wire.detach()
        nodes = {one["nodeId"]: one for one in told}

        def below(node: dict[str, Any]) -> Iterator[Spoken]:
            if not node.get("ignored"):
                level = next(
                    (
                        one["value"]["value"]
                        for one in node.get("properties", ())
                        if one["name"] == "level"
                    ),
                    0,
                )
                yield Spoken(
                    node["role"]["value"], node.get("name", {}).get("value", "").strip(), level
                )
            for child in node.get("childIds", ()):
                if child in nodes:
                    yield from below(nodes[child])

        return list(below(told[0]))

    def note(self, complaint: str) -> None:
        """Something that should not have happened, unless it was to be expected."""
        if not any(part in complaint for part in self.expected):
            self.complaints.append(complaint)


def new_context(browser: Any, url: str, **options: Any) -> Seen:
    """A context with one tab, in which anything that goes elsewhere, fails or asks in a dialogue is
    noted."""
    context = browser.new_context(viewport=WIDE, reduced_motion="reduce", locale="en-GB", **options)
    context.set_default_timeout(20_000)
    context.add_init_script(WATCH)
    seen = Seen(context, None, url)

    def requested(request: Any) -> None:
        if not request.url.startswith((url, "data:")):
            seen.note(f"asked elsewhere: {request.url}")

    def asked(dialog: Any) -> None:
        if seen.agrees:
            seen.asked.append(dialog.message)
            dialog.accept()
        else:
            seen.note(f"dialog: {dialog.message}")
            dialog.dismiss()

    context.on("request", requested)
    context.on("dialog", asked)
    context.on(
        "console",
        lambda said: said.type == "error" and seen.note(f"console: {said.text} {said.location}"),
    )
    context.on("weberror", lambda error: seen.note(f"script: {error.error}"))
    seen.tab = context.new_page()
    return seen
