"""The pages that are made from the code are as the code is."""

import re
from pathlib import Path

from docs import generate
from memsvc.core.errors import Code
from memsvc.gateway import openapi
from memsvc.gateway.metrics import Metrics
from memsvc.runtime import all_published

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_on_tools_is_made_from_the_catalogue() -> None:
    assert (DOCS / "tools.md").read_text("utf-8") == generate.tools_page(), (
        "run `python -m docs.generate`"
    )


def test_the_page_on_tools_tells_of_every_resource_and_prompt() -> None:
    page, shown = (DOCS / "tools.md").read_text("utf-8"), all_published()
    templates = [tool.resource.template for tool in shown.tools if tool.resource is not None]
    assert templates
    assert shown.prompts
    for name in [*templates, *(prompt.name for prompt in shown.prompts)]:
        assert f"| `{name}` |" in page


def test_the_page_on_errors_tells_of_every_code() -> None:
    assert (DOCS / "errors.md").read_text("utf-8") == generate.errors_page(), (
        "run `python -m docs.generate`"
    )
    assert set(generate.DESCRIPTIONS) == set(Code)


def test_the_page_on_metrics_tells_of_every_metric() -> None:
    page = (DOCS / "metrics.md").read_text("utf-8")
    assert page == generate.metrics_page(), "run `python -m docs.generate`"
    families = {
        line.split()[2]
        for line in Metrics().text().decode().splitlines()
        if line.startswith("# HELP")
    }
    for name in families:
        assert f"| `{name}` |" in page


def test_page_on_rest_has_every_path_that_is_not_just_a_tool() -> None:
    page = (DOCS / "rest.md").read_text("utf-8")
    assert page == generate.rest_page(), "run `python -m docs.generate`"
    paths = openapi.document(all_published().tools, "")["paths"]
    assert all(f"`{path}`" in page for path in paths if not path.startswith("/api/tools/"))


def test_index_and_readme_lead_to_every_page() -> None:
    index = (DOCS / "index.md").read_text("utf-8")
    assert {page.name for page in DOCS.glob("*.md")} - {"index.md"} == set(
        re.findall(r"\]\((\w+\.md)\)", index)
    )
    assert "](docs/index.md)" in (DOCS.parent / "README.md").read_text("utf-8")


def test_every_argument_and_result_is_described_below_its_tool_or_once_for_all() -> None:
    head, *sections = re.split(r"^## ", (DOCS / "tools.md").read_text("utf-8"), flags=re.M)
    below = {section.partition("\n")[0]: section for section in sections}
    arguments, results = head.split("Result fields:")
    for tool in all_published().tools:
        for members, shared in (
            (generate.arguments_of(tool), arguments),
            (generate.results_of(tool), results),
        ):
            for name, line in members.items():
                assert not line.endswith(": "), (tool.name, name)
                assert line in below[tool.name] or (
                    f"`{name}`" in below[tool.name] and f"{line}\n" in shared
                )


def test_every_link_between_pages_leads_somewhere() -> None:
    checkout = DOCS.parent
    pages = [*checkout.glob("*.md"), *DOCS.rglob("*.md")]
    broken = []
    for page in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
            path, _, anchor = target.partition("#")
            leads_to = page.parent / path if path else page
            if "://" not in target and not (
                leads_to.exists() and (not anchor or anchor in anchors(leads_to))
            ):
                broken.append(f"{page.relative_to(checkout)}: {target}")
    assert pages
    assert broken == []


def anchors(page: Path) -> set[str]:
    """Return the anchors that a page's headings have on the repository's host."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)
    return {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }
