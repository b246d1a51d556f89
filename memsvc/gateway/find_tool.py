"""The tool find_tool, which finds the few tools that fit a query."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from time import monotonic
from typing import Annotated, Any, Final, Literal, Protocol

import regex
from pydantic import BaseModel, Field

from memsvc.core.analysis import query_terms, terms
from memsvc.core.errors import Code, MemsvcError, invalid, invalid_query, unavailable
from memsvc.core.frozen import frozen
from memsvc.core.ranking import bm25_scores
from memsvc.core.scope import Caller, Permission
from memsvc.core.tool_methods import tool
from memsvc.core.tools import ComposedArguments, Result, Tool, ToolCalls
from memsvc.core.vectors import cosine
from memsvc.gateway.schemas import input_schema

NAME: Final = "find_tool"
FOUND_MAX: Final = 5
QUERY_CHARS_MAX: Final = 2000
PATTERN_CHARS_MAX: Final = 200
PATTERN_S_MAX: Final = 0.2
"""Seconds that a pattern may search all the tools together."""
REPEATS_MAX: Final = 100
"""Limit of a pattern's repeat counts when multiplied: compiling writes each repetition out."""
K1: Final = 1.2
B: Final = 0.75
WORDS_FILE: Final = "tool_words.txt"
"""Tools with words by which people ask for them."""
NAME_WEIGHT: Final = 3
"""Weight of a word in a tool's name: it says more than one of many in descriptions of arguments."""
EMBEDDING_WEIGHT: Final = 0.65
HALF_SCORE: Final = 12.0
"""Score by words that counts half of what the best possible one does."""

_SPECIAL_CHARACTERS: Final = frozenset("\\^$.|?*+()[]{}")
_ESCAPED: Final = regex.compile(r"\\.", regex.DOTALL)
_REPEATED: Final = regex.compile(r"\{(\d*)(,?)(\d*)\}")
_GROUPS: Final = regex.compile(r"\(\?(?!:|=|!|<=|<!|P?<\w+>)")
_IDENTIFIER: Final = regex.compile(r"[A-Za-z0-9_]*_[A-Za-z0-9_]*")

Mode = Literal["auto", "regex", "bm25", "embedding"]


class ToolEmbedder(Protocol):
    """Computes comparable vectors for texts and questions."""

    async def embed_texts(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text."""
        ...

    async def question(self, text: str) -> list[float] | None:
        """Return the vector of a question, or None if it is not available in time."""
        ...

    @property
    def unrelated(self) -> float | None:
        """Return the cosine of unrelated texts, if it is known."""
        ...


class FoundTool(BaseModel):
    """A tool as `tools/list` returns it."""

    name: str = Field(description="name under which to call the tool")
    description: str = Field(description="description of the tool")
    inputSchema: dict[str, Any] = Field(description="JSON schema of the tool's arguments")  # noqa: N815 - the name in MCP


class ToolReference(BaseModel):
    """A tool by its name."""

    type: Literal["tool_reference"] = Field("tool_reference", description="always tool_reference")
    tool_name: str = Field(description="name under which to call the tool")


class FindResult(Result):
    """Tools that fit, best first, in one of the two lists."""

    tools: list[FoundTool] | None = Field(
        None,
        description="the tools that were found, unless references are requested",
        exclude_if=lambda value: value is None,
    )
    tool_references: list[ToolReference] | None = Field(
        None,
        description="names of the tools that were found, if references are requested",
        exclude_if=lambda value: value is None,
    )


@frozen
class _Document:
    """Searched text of a tool: its fields, the most relevant first, their terms, its purpose."""

    tool: Tool
    schema: dict[str, Any]
    fields: tuple[str, ...]
    terms: tuple[str, ...]
    purpose: str


class ToolSearch:
    """Search over tools that caches each tool's document and vector."""

    def __init__(self, embedder: ToolEmbedder | None) -> None:
        self._embedder = embedder
        self._documents: dict[str, _Document] = {}
        self._vectors: dict[str, list[float]] = {}

    @tool(
        NAME,
        "Find tools",
        Permission.READ,
        toolset="agent",
        for_hosts=True,
        base=ComposedArguments,
        logs=("mode",),
        spans_projects=True,
    )
    async def run(
        self,
        caller: Caller,
        calls: ToolCalls,
        query: Annotated[
            str,
            Field(max_length=QUERY_CHARS_MAX),
            "what the tool should do, or a regex for its name/description",
        ],
        mode: Annotated[
            Mode,
            "auto: regex if query resembles one, else embedding or bm25",
        ] = "auto",
        return_references_only: Annotated[bool, "return names only"] = False,
    ) -> FindResult:
        """Call when no listed tool fits: finds up to 5 tools, best first, with schemas.

        Call them by name, or in mcp_pipe."""
        query = query.strip()
        if not query:
            raise invalid_query("query must not be empty")
        tools = [
            tool
            for tool in calls.tools()
            if tool.name != NAME and caller.is_offered(tool.permission)
        ]
        # the first time takes a tenth of a second
        documents = await asyncio.to_thread(lambda: [self._document(tool) for tool in tools])
        found = (await self._ranked(query, mode, documents))[:FOUND_MAX]
        if return_references_only:
            return FindResult(
                tool_references=[ToolReference(tool_name=document.tool.name) for document in found]
            )
        return FindResult(
            tools=[
                FoundTool(
                    name=document.tool.name,
                    description=document.tool.description,
                    inputSchema=document.schema,
                )
                for document in found
            ]
        )

    async def _ranked(self, query: str, mode: Mode, documents: list[_Document]) -> list[_Document]:
        match mode:
            case "regex":
                return await _by_pattern(query, documents)
            case "bm25":
                return _best(documents, _by_words(query, documents))
            case "embedding":
                scores = await self._by_meaning(query, documents)
                if scores is not None:
                    return _best(documents, scores)
                if self._embedder is None:
                    raise invalid(
                        "mode embedding needs an embedder (a model that computes vectors),"
                        " but this server does not have one",
                        recovery="use mode auto, bm25 or regex",
                    )
                raise unavailable(
                    "the embedder, the model that computes vectors for a search by meaning,"
                    " cannot be reached",
                    retry_after_s=5.0,
                    recovery="use mode auto or bm25",
                )
            case "auto":
                found = await _by_likely_pattern(query, documents)
                scores = None if found else await self._by_meaning(query, documents)
                return found or _best(documents, scores or _by_words(query, documents))

    async def _by_meaning(self, query: str, documents: list[_Document]) -> list[float] | None:
        """Return 0.65 of the cosine plus 0.35 of the score by words, scaled to less than 1.

        0 for a tool that shares no word with the query and means something else. None without an
        embedder, and where it is late or fails.
        """
        query_vector = None if self._embedder is None else await self._embedder.question(query)
        if self._embedder is None or query_vector is None:
            return None
        missing = [document for document in documents if document.tool.name not in self._vectors]
        if missing:
            vectors = await self._embedder.embed_texts([document.purpose for document in missing])
            self._vectors |= {
                document.tool.name: vector
                for document, vector in zip(missing, vectors, strict=True)
            }
        unrelated = self._embedder.unrelated or 0.0
        scores = []
        for document, words in zip(documents, _by_words(query, documents), strict=True):
            similarity = cosine(query_vector, self._vectors[document.tool.name])
            score = EMBEDDING_WEIGHT * similarity + (1 - EMBEDDING_WEIGHT) * words / (
                words + HALF_SCORE
            )
            scores.append(score if words or similarity > unrelated else 0.0)
        return scores

    def _document(self, tool: Tool) -> _Document:
        if tool.name not in self._documents:
            schema = input_schema(tool)
            arguments = schema.get("properties", {})
            argument_text = " ".join(
                f"{name} {field.get('description', '')}" for name, field in arguments.items()
            )
            fields = (tool.name, f"{tool.title}. {tool.description}", argument_text)
            asked = words_by_tool().get(tool.name, "")
            words = (
                *(terms(tool.name) + terms(asked)) * NAME_WEIGHT,
                *(term for text in fields[1:] for term in terms(text)),
            )
            self._documents[tool.name] = _Document(tool, schema, fields, words, asked or fields[1])
        return self._documents[tool.name]


async def _by_likely_pattern(query: str, documents: list[_Document]) -> list[_Document]:
    """Return the tools by pattern if the query looks like one and finds any, else none.

    Many questions end with a question mark.
    """
    if _SPECIAL_CHARACTERS & {*query} or _IDENTIFIER.fullmatch(query):
        try:
            return await _by_pattern(query, documents)
        except MemsvcError as error:
            if error.code is not Code.INVALID_QUERY:
                raise
    return []


async def _by_pattern(pattern: str, documents: list[_Document]) -> list[_Document]:
    """Return the tools in which the pattern occurs: in the name, the description, the arguments.

    In this order. INVALID_QUERY for an invalid pattern, or one that is too long, could take much
    memory, or takes too long.
    """
    if len(pattern) > PATTERN_CHARS_MAX:
        raise invalid_query(f"the pattern is longer than {PATTERN_CHARS_MAX} characters")
    if not _is_safe(pattern):
        raise invalid_query(
            "the regular expression repeats too much, or uses features that are not supported",
            recovery=f"keep the product of all repeat counts at {REPEATS_MAX} or less; avoid"
            " recursion, flags and fuzzy matching",
        )
    scores = await asyncio.to_thread(_matched, pattern, documents)
    return _best(documents, scores)


def _is_safe(pattern: str) -> bool:
    """Return whether a pattern cannot take much memory.

    Its groups are plain, named or look around, and every brace is a repeat count, of which there
    are few. A time limit does not help against the cost of compiling others.
    """
    bare = _ESCAPED.sub("", pattern)
    if _GROUPS.search(bare) or "{" in _REPEATED.sub("", bare):
        return False
    repeats = 1
    for lower, _, upper in _REPEATED.findall(bare):
        repeats *= max(1, int(lower[:9] or 0), int(upper[:9] or 0))
    return repeats <= REPEATS_MAX


def _matched(pattern: str, documents: list[_Document]) -> list[float]:
    """Return, per document, how relevant the first field with a match is; 0 for none."""
    try:
        compiled = regex.compile(pattern, regex.IGNORECASE)
    except (regex.error, ValueError, OverflowError, RecursionError):
        raise invalid_query("the query is not a valid regular expression") from None
    until = monotonic() + PATTERN_S_MAX
    scores = [0.0] * len(documents)
    for at, document in enumerate(documents):
        for rank, text in enumerate(document.fields):
            try:
                # without the interpreter's lock, so that only its caller waits for a slow pattern
                found = compiled.search(
                    text, timeout=max(0.001, until - monotonic()), concurrent=True
                )
            except TimeoutError:
                raise invalid_query("matching the regular expression takes too long") from None
            if found:
                scores[at] = float(len(document.fields) - rank)
                break
    return scores


def _by_words(query: str, documents: list[_Document]) -> list[float]:
    return bm25_scores(query_terms(query), [document.terms for document in documents], K1, B)


@cache
def words_by_tool() -> Mapping[str, str]:
    """Return the content of WORDS_FILE."""
    lines = files(__package__).joinpath(WORDS_FILE).read_text("utf-8").splitlines()
    pairs = (line.partition(": ") for line in lines if not line.startswith("#"))
    return {name: words for name, _, words in pairs}


def _best(documents: list[_Document], scores: list[float]) -> list[_Document]:
    """Return those with a score, best first, by name among equals."""
    ranked = sorted(
        zip(documents, scores, strict=True), key=lambda pair: (-pair[1], pair[0].tool.name)
    )
    return [document for document, score in ranked if score > 0]
