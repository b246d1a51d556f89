"""Index of a user's memories, and writes to it: one transaction under its lock, all or nothing."""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from memsvc.core.analysis import terms
from memsvc.core.errors import quota_exceeded
from memsvc.core.facts import Evidence, FactTier, Merge, Origin, Statement
from memsvc.core.frozen import frozen
from memsvc.core.scope import Scope
from memsvc.core.tools import ProjectEvent
from memsvc.store import changes, facts, index, memories, ownership
from memsvc.store.database import Database, Tx
from memsvc.store.facts import StatementWithExpiry
from memsvc.store.index import index_id_of
from memsvc.store.locks import index_lock
from memsvc.store.memories import Memory
from memsvc.store.ownership import OwnerData
from memsvc.styles.embedding import EMBED_JOB, queue_embedding

FOUND_URI: Final = "memsvc://memories/found"
"""The resource announced in a project when a conversation yielded memories."""
KEY: Final = "memory"
"""The fact id and key of texts that no rule read; the slot is the memory's id."""
ALL_USERS: Final = "memories"
"""The lock under which the users of a project are counted; always the last lock taken."""
_PREFIX: Final = "memories/"
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@frozen
class MemoryIndex:
    """Name and id of a user's index."""

    name: str
    index_id: int


def index_for(user: str) -> MemoryIndex:
    """Return the index of a user's memories."""
    name = f"{_PREFIX}{user}"
    return MemoryIndex(name, index_id_of(name))


def user_of(name: str) -> str:
    """Return the user whose memories are in the index of this name."""
    return name.removeprefix(_PREFIX)


def new_id(now: datetime) -> str:
    """Return a new memory's id: `mem_`, milliseconds since 1970, nine random characters."""
    return f"mem_{int(now.timestamp() * 1000)}_{''.join(secrets.choice(_DIGITS) for _ in range(9))}"


def hidden_before(now: datetime, decay_days: float) -> datetime | None:
    """Return the time before which a memory's last change makes it hidden; None: none is hidden.

    A memory changed exactly then is visible.
    """
    return now - timedelta(days=decay_days) if decay_days > 0 else None


def comparable(text: str) -> str:
    """Return a text for comparison, without case, extra white space and a final full stop."""
    return " ".join(text.casefold().split()).rstrip(".")


@frozen
class MemoryOwners:
    """Owners of memories: users, and sessions that a client named."""

    database: Database

    async def of_session(self, scope: Scope, session: str) -> AsyncIterator[OwnerData]:
        """Yield what memories say since a call whose metadata has this `session_id`.

        A memory with no other text is purged; one that said something else before ended then.
        """
        async with self.database.begin_read(scope) as tx:
            index_names = await ownership.indexes_with_facts(tx, session, _PREFIX)
        for name in index_names:
            yield OwnerData(
                locks=(index_lock(name),),
                purge_steps=(ownership.facts_of_session(name, session),),
            )

    async def of_user(self, scope: Scope, user: str) -> AsyncIterator[OwnerData]:
        """Yield the user's memories and their history."""
        del scope
        user_index = index_for(user)
        yield OwnerData(
            locks=(index_lock(user_index.name),),
            index_names=(user_index.name,),
            jobs=((EMBED_JOB, str(user_index.index_id)),),
        )


KIND: Final = "MemoryExtracted"
EVENTS_MAX: Final = 100


@frozen
class MemoryEvents:
    """`ProjectEventSource` of memories: each call that added or changed some is one event."""

    uri = FOUND_URI
    tool = "memories_get_settings"

    database: Database

    async def latest(self, scope: Scope) -> int:
        async with self.database.begin_read(scope) as tx:
            return await memories.latest_event(tx)

    async def since(self, scope: Scope, number: int) -> Sequence[ProjectEvent]:
        """Return up to 100 events; texts deleted since are left out."""
        async with self.database.begin_read(scope) as tx:
            found = await memories.events_since(tx, number, limit=EVENTS_MAX)
        return [
            ProjectEvent(
                one.number,
                KIND,
                {
                    "event_type": KIND,
                    "facts": one.texts,
                    "count": len(one.texts),
                    "timestamp": one.found_at.isoformat().replace("+00:00", "Z"),
                },
            )
            for one in found
        ]


_KINDS: Final[Mapping[str, str]] = {
    "food diet eat meal dietary": (
        "vegetarian vegan pescatarian allergic allergy intolerant gluten lactose nuts peanuts"
        " dairy meat fish seafood pizza pasta sushi cheese chocolate fruit vegetables breakfast"
        " lunch dinner cook cooking bake spicy curry bread salad mushrooms olives eggs rice soup"
        " dessert keto halal kosher restaurant snack"
    ),
    "drink beverage": "coffee tea espresso latte wine beer juice whisky whiskey water milk"
    " cocktail",
    "outdoor activity sport exercise fitness hobby": (
        "hiking hike climbing bouldering camping cycling running jogging marathon skiing"
        " snowboarding swimming surfing kayaking fishing gardening trekking sailing rowing"
        " football soccer tennis basketball golf yoga gym"
    ),
    "hobby interest free time": (
        "chess painting drawing photography reading knitting pottery gaming puzzles dancing"
        " singing guitar piano violin crafts birdwatching"
    ),
    "programming language code software development technology": (
        "python javascript typescript java kotlin rust golang ruby php swift haskell scala perl"
        " sql fastapi django flask react angular svelte rails nodejs"
    ),
    "interface ui appearance theme display setting preference": "dark light mode theme font"
    " colour color layout",
    "work job career profession": (
        "engineer developer programmer teacher nurse doctor lawyer designer architect manager"
        " analyst scientist student accountant consultant employer company office retired"
        " freelance"
    ),
    "home place city location address": "lives live moved apartment house",
    "family relative": (
        "wife husband partner mother father daughter son brother sister child kids grandmother"
        " grandfather cousin baby"
    ),
    "pet animal": "dog cat puppy kitten horse parrot rabbit hamster turtle",
    "health medical condition": (
        "diabetes asthma epilepsy migraine depression anxiety adhd cancer allergic allergy"
        " pregnant insulin medication"
    ),
    "music": "guitar piano violin drums band concert jazz rock classical techno singing",
    "film book entertainment": "movie film series novel book cinema theatre reading netflix",
    "travel trip vacation holiday": "travel trip flight flying visit vacation holiday hotel tour",
    "education school study degree": "university college degree studies course exam learning"
    " thesis",
}
"""Everyday things by category, so that "outdoor activities" finds hiking without an embedder. It is
no thesaurus: what is not in it is found by its own words, or by similarity where an embedder is
configured."""


def _by_term() -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for kind, keywords in _KINDS.items():
        for term in terms(keywords):
            kinds.setdefault(term, []).append(kind)
    return kinds


_BY_TERM: Final = _by_term()


def kinds_of(text: str) -> str:
    """Return the categories of the things that a text names, each word once; "" for none."""
    kinds = [kind for term in terms(text) for kind in _BY_TERM.get(term, ())]
    return " ".join(dict.fromkeys(" ".join(kinds).split()))


CONFIDENCE = 0.9


@frozen
class MemoryChange:
    """Change of a memory: `statement` is its new text, `old` what it was."""

    event: Literal["ADD", "UPDATE", "DELETE"]
    memory: str
    statement: Statement | None = None
    old: Memory | None = None

    @property
    def text(self) -> str:
        """Return the memory's new text; "" once it is deleted."""
        return self.statement.value if self.statement is not None else ""


def added(memory: str, text: str, evidence: Evidence) -> MemoryChange:
    """Return the addition of a memory of this text."""
    statement = Statement(
        memories.record_of(memory, 1), KEY, KEY, memory, text, FactTier.L0, CONFIDENCE, "", evidence
    )
    return MemoryChange("ADD", memory, _with_keywords(statement))


def read_by_rule(memory: str, statement: Statement) -> MemoryChange:
    """Return the addition of a memory that a rule read, with the identity of the rule."""
    return MemoryChange(
        "ADD", memory, _with_keywords(replace(statement, record=memories.record_of(memory, 1)))
    )


def changed(old: Memory, text: str, evidence: Evidence, *, keywords: str = "") -> MemoryChange:
    """Return a memory's change to a new text, which `keywords` find as well."""
    before = old.fact.statement
    record = memories.record_of(old.memory, memories.version_of(before.record) + 1)
    statement = replace(
        before, record=record, value=text, keywords=keywords, evidence=evidence, conflicts=()
    )
    return MemoryChange("UPDATE", old.memory, _with_keywords(statement), old)


def deleted(old: Memory) -> MemoryChange:
    """Return the deletion of a memory."""
    return MemoryChange("DELETE", old.memory, None, old)


def evidence_of(user: str, origin: Origin, metadata: dict[str, Any]) -> Evidence:
    """Return who found something, and in which session if the client names one."""
    session = metadata.get("session_id")
    return Evidence(session[:128] if isinstance(session, str) else "", "", "", user, origin)


def _with_keywords(statement: Statement) -> Statement:
    keywords = dict.fromkeys(f"{statement.keywords} {kinds_of(statement.value)}".split())
    return replace(statement, keywords=" ".join(keywords))


@frozen
class MemoryWriter:
    """Writer of changes that were decided within the same transaction."""

    per_user_max: int
    users_max: int

    async def write(
        self,
        tx: Tx,
        user_index: MemoryIndex,
        changes_: Sequence[MemoryChange],
        now: datetime,
        *,
        metadata: dict[str, Any] | None = None,
        found: bool = False,
    ) -> None:
        """Write changes of different memories of an index whose lock is held.

        `metadata` is stored with what is added. What was `found` in a conversation becomes an
        event. QUOTA_EXCEEDED when there would be too many.
        """
        if not changes_:
            return
        additions = [one for one in changes_ if one.event == "ADD"]
        if additions:
            await self._check_users(tx, user_index)
            deleted_count = sum(one.event == "DELETE" for one in changes_)
            more = len(additions) - deleted_count
            if (
                more > 0
                and await memories.count_current(tx, user_index.index_id) + more > self.per_user_max
            ):
                raise quota_exceeded(
                    f"a user can have at most {self.per_user_max} memories",
                    recovery="delete some memories, or ask the operator to raise"
                    " memories.per_user_max",
                )
        statements = [
            StatementWithExpiry(one.statement, None)
            for one in changes_
            if one.statement is not None
        ]
        merge = Merge(
            kept=tuple(one.statement for one in statements),
            replaced=tuple(
                (one.old.fact, one.statement.record)
                for one in changes_
                if one.old is not None and one.statement is not None
            ),
            repeated=0,
            deleted=tuple(
                one.old.fact for one in changes_ if one.old is not None and one.statement is None
            ),
        )
        first_entries = (
            await index.add(tx, {user_index.name: facts.entries(statements, now)})
            if statements
            else {}
        )
        first_entry = first_entries.get(user_index.name, 0)
        await facts.apply(tx, user_index.index_id, first_entry, merge, statements, now)
        if additions:
            identities = [
                (one.memory, one.statement.identity)
                for one in additions
                if one.statement is not None
            ]
            await memories.remember(tx, user_index.index_id, identities, metadata or {}, now)
        await queue_embedding(tx, now)
        if statements and found:
            await changes.notify(tx, FOUND_URI)
            await memories.add_event(tx, user_index.index_id, first_entry, len(statements), now)

    async def _check_users(self, tx: Tx, user_index: MemoryIndex) -> None:
        """Raise QUOTA_EXCEEDED for one user too many.

        Checked when a user's first memory is stored, one user at a time.
        """
        if await memories.has_any(tx, user_index.index_id):
            return
        await tx.lock(index_lock(ALL_USERS))
        if await memories.users(tx, limit=self.users_max) >= self.users_max:
            raise quota_exceeded(
                f"a project can store memories of at most {self.users_max} users",
                recovery="purge the memories of former users, or ask the operator to raise"
                " memories.users_max",
            )
