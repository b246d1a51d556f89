"""Tools of no style that can be read under a URI: boards, each the text of one conversation of one
user."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.paths import check_identifier
from memsvc.core.resources import Prompt, Resource
from memsvc.core.scope import Permission, Scope
from memsvc.core.tools import Arguments, Result, Tool
from memsvc.gateway.dispatch import Catalogue
from memsvc.store.changes import notify
from memsvc.store.database import Database

WRITES: Counter[tuple[Scope, str]] = Counter()
"""How often each board was written, by whichever server of this process."""


async def stamps(scope: Scope, boards: Sequence[Any]) -> Sequence[object]:
    return [WRITES[_place(scope), _uri(board)] for board in boards]


Identifier = Annotated[str, AfterValidator(lambda value: check_identifier(value, "identifier"))]

BOARD = Resource(
    template="memory://{user_id}/{conversation_id}",
    name="board",
    title="Board",
    description="What is on the board of a conversation.",
    text="text",
    has_notifications=True,
    stamps=stamps,
)
PROMPT = Prompt(
    name="board:show",
    title="Board",
    description="The board, as a message.",
    tool="board_read",
    arguments=("user_id", "conversation_id", "project"),
    text=lambda body: f"On the board: {body['text']}",
)


class BoardArguments(Arguments):
    user_id: Identifier
    conversation_id: Identifier


class WriteArguments(BoardArguments):
    text: str = ""


class BoardResult(Result):
    text: str


class Written(Result):
    result: bool


class Boards:
    """The boards of all tenants, in memory; that one has changed is announced through the
    database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._texts: dict[tuple[Scope, str], str] = {}
        self.fails: MemsvcError | None = None

    async def read(self, scope: Scope, asked: BoardArguments) -> BoardResult:
        if self.fails is not None:
            raise self.fails
        return BoardResult(text=self._texts.get((_place(scope), _uri(asked)), ""))

    async def write(self, scope: Scope, asked: WriteArguments) -> Written:
        if asked.text == "no such board":
            raise MemsvcError(Code.NOT_FOUND, "Error: id: not found", details={"id": asked.user_id})
        if asked.text == "busy":
            raise MemsvcError(Code.RESOURCE_BUSY, "somebody else is at it", retry_after_s=0.5)
        if asked.text == "crash":
            raise RuntimeError(asked.text)
        self._texts[_place(scope), _uri(asked)] = asked.text
        WRITES[_place(scope), _uri(asked)] += 1
        async with self._database.begin(scope) as tx:
            await notify(tx, _uri(asked))
        return Written(result=True)

    def catalogue(self, **changes: Any) -> Catalogue:
        """`board_read`, which has the resource, and `board_write`, whose answer is told as a bare
        value."""
        named = frozenset({"project", "user_id", "conversation_id"})
        read = {
            "name": "board_read",
            "title": "Read",
            "description": "To read",
            "arguments": BoardArguments,
            "result": BoardResult,
            "run": lambda context, args: self.read(context.scope, args),
            "permission": Permission.READ,
            "read_only": True,
            "idempotent": True,
            "logged": named,
            "resource": BOARD,
        }
        write = Tool(
            name="board_write",
            title="Write",
            description="To write",
            arguments=WriteArguments,
            result=Written,
            run=lambda context, args: self.write(context.scope, args),
            permission=Permission.WRITE,
            read_only=False,
            idempotent=True,
            logged=named,
            text_member="result",
            protocol_errors=True,
        )
        return Catalogue([Tool(**(read | changes)), write])


def _place(scope: Scope) -> Scope:
    return Scope(scope.tenant, scope.project)


def _uri(asked: BoardArguments) -> str:
    return BOARD.uri(user_id=asked.user_id, conversation_id=asked.conversation_id)
