"""What may be an id, what is a link, and how ids stand in the tree."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from memsvc.core.scope import Scope
from memsvc.styles.notebook.document_tree import (
    document_at,
    document_id,
    initial,
    links,
    path_of,
    without_links,
)
from memsvc.styles.notebook.notebook_reader import block_style, scalar
from memsvc.styles.notebook.options import NotebookOptions
from memsvc.styles.notebook.tools import notebook as documents_of
from memsvc.styles.services import StyleServices
from tests.styles.notebook.conftest import NotebookDoor

HOSTILE = [
    *(
        "../x",
        "..",
        ".",
        "a/b",
        "a\\b",
        "メモ",
        "%2e%2e",
        "%2E%2E",
        "%",
        "_",
        "a_b",
        "a%b",
        "/",
        "//",
        "a b",
        "nul",
    ),
    *(
        "\u202ereversed",
        "مرحبا",
        "\u200b",
        "🙂",
        "👩‍👩‍👧",
        "'; DROP TABLE files; --",
        "~",
        "x" * 128,
        "İ",
        "ß",
        "-",
        "a.md",
    ),
    *(
        "123",
        "true",
        "null",
        "{}",
        '"',
        "a: b",
        "a#b",
        "a #b",
        "| x",
        "a|b",
        "$1",
        "\\1",
        "Root",
        "root.md",
        "ROOT",
    ),
]


@pytest.mark.anyio
async def test_hostile_ids_are_documents_of_their_own(notebook: NotebookDoor) -> None:
    text = "".join(f"- [[{name}]]\n" for name in HOSTILE)
    assert await notebook.write("root", text) == "Succeeded\nCreated: " + ", ".join(HOSTILE)
    for number, name in enumerate(HOSTILE):
        assert await notebook.text(name) == f"# {name}\n\n"
        assert await notebook.write(name, f"mine is kumquat{number}") == "Succeeded"
    for number, name in enumerate(HOSTILE):
        assert await notebook.text(name) == f"mine is kumquat{number}"
        found = (await notebook("search_documents", query=f"kumquat{number}"))["passages"]
        assert [one["id"] for one in found] == [name]
    assert yaml.safe_load(await notebook.tree()) == {"root": HOSTILE}
    assert await notebook.text() == text


@pytest.mark.anyio
async def test_an_id_is_the_same_however_its_letters_are_composed(notebook: NotebookDoor) -> None:
    assert (
        await notebook.write("root", "[[cafe\u0301]] [[caf\u00e9]]")
        == "Succeeded\nCreated: caf\u00e9"
    )
    assert await notebook.text("cafe\u0301") == "# caf\u00e9\n\n"


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("[[a]][[b]] [[a]]", ("a", "b")),
        ("[[]] [[ ]] [[ a]] [[a ]] [[\ta]] [[a\n]] [[a\rb]] [[\x00]] [[\u2028x]]", ()),
        ("[[a|b]] [[a b]] [[a/b]]", ("a|b", "a b", "a/b")),
        ("[[[x]]] [[[[y]]]]", ("x", "y")),
        ("[[a [[b]] c]]", ("b",)),
        ("[[a] [b]] [a]] [[c] ]", ()),
        ("```\n[[fenced]]\n```\n`[[quoted]]`\n    [[indented]]", ("fenced", "quoted", "indented")),
        ("\\[\\[escaped\\]\\] [ [spaced]] [[1,2],[3,4]]", ()),
        ("# [[in a heading]]\n> [[quoted]]\n| [[cell]] |", ("in a heading", "quoted", "cell")),
        ("if [[ -f x ]]; then", ()),
        ("[[" + "x" * 128 + "]] [[" + "y" * 129 + "]] [[" + "é" * 65 + "]]", ("x" * 128,)),
    ],
)
def test_a_link_is_an_id_between_two_pairs_of_brackets(text: str, linked: tuple[str, ...]) -> None:
    assert links(text) == linked


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["x" * 129, "漢" * 43, "é" * 65, "a b " * 40 + "c"])
async def test_link_that_is_too_long_is_an_error_and_nothing_is_removed(
    notebook: NotebookDoor, name: str
) -> None:
    await notebook.write("root", "[[a]] stays")
    before = await notebook.version()
    for tool, arguments in (
        ("update_document", {"content": f"[[{name}]]"}),
        ("edit_document", {"old_text": "[[a]]", "new_text": f"[[{name}]]"}),
    ):
        message, details = await notebook.refused("INVALID_CONTENT", tool, **arguments)
        assert message == (
            "Error: content: the id in a link is limited to 128 bytes, but one link has an id of"
            f" {len(name.encode())} bytes"
        )
        assert details == {"link": name[:128]}
    assert await notebook.version() == before
    assert await notebook.tree() == "root:\n- a\n"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "text", [f"[[ {'x' * 200} ]]", f"[{'x' * 200}]", f"[[{'x' * 200}\n]]", f"[[{'x' * 200}"]
)
async def test_long_text_in_brackets_that_is_no_link_is_text(
    notebook: NotebookDoor, text: str
) -> None:
    assert await notebook.write("root", text) == "Succeeded"
    assert await notebook.text("root") == text


@pytest.mark.anyio
async def test_text_that_was_imported_with_too_long_a_link_can_be_edited(
    notebook: NotebookDoor, style_services: StyleServices, scope: Scope
) -> None:
    documents = documents_of(style_services, NotebookOptions())
    await documents.import_documents(scope, {"root": f"[[{'x' * 200}]] and more"})
    await notebook("edit_document", old_text="more", new_text="[[a]]")
    assert await notebook.tree() == "root:\n- a\n"


def test_a_million_brackets_are_read_at_once() -> None:
    for text in (
        "[" * 1_000_000,
        "[[" + "a" * 1_000_000 + "]]",
        "[[a" * 300_000,
        "[[" + "a\u0301" * 500_000,
    ):
        assert links(text) == ()


@given(st.text(min_size=1, max_size=40))
def test_an_id_has_a_path_that_leads_back_to_it_and_a_link_that_is_found(name: str) -> None:
    known = document_id(name)
    if known is None:
        assert known not in links(f"[[{name}]]")
        return
    assert document_at(path_of(known)) == known
    assert path_of(known).count("/") == 2
    assert links(f"see [[{name}]].") == (known,)
    assert links(initial(known)) == ()
    assert without_links(f"see [[{name}]].", {known}) == f"see {name}."
    assert without_links(f"- [[{name}]]\n", {known}) == ""


@given(
    st.text(min_size=1, max_size=40)
    | st.text("0123456789_:.-+exbonyfTZ =<", min_size=1, max_size=20)
)
def test_an_id_in_the_tree_reads_back_as_the_string_it_is(name: str) -> None:
    known = document_id(name)
    if known is not None:
        try:
            read = yaml.safe_load(f"- {scalar(known)}\n")
        except yaml.reader.ReaderError:
            return  # PyYAML refuses some characters that the serialiser writes as they are
        assert read == [known]


@pytest.mark.parametrize(
    ("name", "written"),
    [
        *(
            ("123", "'123'"),
            ("true", "'true'"),
            ("null", "'null'"),
            ("~", "'~'"),
            ("1e5", "'1e5'"),
            ("0x1f", "'0x1f'"),
        ),
        *(
            ("007", "'007'"),
            (".5", "'.5'"),
            ("-.inf", "'-.inf'"),
            ("1_000", "'1_000'"),
            ("1e999", "1e999"),
        ),
        *(
            *(
                (word, f"'{word}'")
                for word in ("yes", "No", "n", "off", "12:30", "190:20:30.5", "2026-01-05", "0b1_0")
            ),
            *(
                (word, word)
                for word in (
                    "nor",
                    "yes please",
                    "12:75",
                    "12-30",
                    "2026-01",
                    "1_000 km",
                    "v1_0",
                    "a=b",
                )
            ),
            ("-", "'-'"),
            ("-a", "-a"),
            ("- a", "'- a'"),
            ("a: b", "'a: b'"),
            ("a:b", "a:b"),
            ("a:", "'a:'"),
        ),
        *(
            ("#a", "'#a'"),
            ("a #b", "'a #b'"),
            ("a#b", "a#b"),
            ("it's", "it's"),
            ("'q'", "'''q'''"),
            ("{a}", "'{a}'"),
        ),
        *(
            ("メモ", "メモ"),
            ("🙂", '"\\U0001F642"'),
            ('🙂"', '"\\U0001F642\\""'),
            ("a, b", "a, b"),
            ("---", "'---'"),
        ),
    ],
)
def test_ids_are_quoted_where_the_serialiser_quotes_them(name: str, written: str) -> None:
    assert scalar(name) == written
    assert yaml.safe_load(written) == name
    assert block_style("root", {"root": [name], name: ["x"]}) == f"root:\n- {written}:\n  - x\n"


def test_a_tree_of_a_thousand_levels_is_written() -> None:
    text = block_style("0", {str(level): [str(level + 1)] for level in range(1000)})
    assert text.splitlines()[-1] == "  " * 999 + "- '1000'"
