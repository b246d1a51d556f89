"""The indexes of turn memory: a session's items, a session's facts, and a user's facts."""

from memsvc.core.frozen import frozen
from memsvc.store.index import index_id_of


@frozen
class TurnIndex:
    """An index by name and number."""

    name: str
    number: int


def named(name: str) -> TurnIndex:
    """Return the index with this name."""
    return TurnIndex(name, index_id_of(name))


def turns(session: str) -> TurnIndex:
    """Return the index of a session's items, in order."""
    return named(f"turns/{session}")


def facts(session: str, user: str) -> list[TurnIndex]:
    """Return the fact indexes of a turn: the session's and, if given, the user's."""
    session_index = [named(f"facts/session/{session}")]
    return [*session_index, named(f"facts/user/{user}")] if user else session_index


def fact_ids(session: str, user: str) -> list[int]:
    """Return the numbers of the fact indexes of a turn."""
    return [index.number for index in facts(session, user)]


def new_facts(session: str, user: str) -> TurnIndex:
    """Return the index for new facts: the user's where known, so other sessions have them too."""
    return facts(session, user)[-1]


def insights(session: str, user: str) -> list[TurnIndex]:
    """Return the insight indexes of a session and its user, in the order of `facts`."""
    session_index = [named(f"insights/session/{session}")]
    return [*session_index, named(f"insights/user/{user}")] if user else session_index


def insights_from(facts: str) -> TurnIndex:
    """Return the index of insights about the facts of this index."""
    return named("insights/" + facts.removeprefix("facts/"))


def digests(user: str) -> TurnIndex:
    """Return the index of a user's session digests, used to find a session from another one."""
    return named(f"digests/{user}")
