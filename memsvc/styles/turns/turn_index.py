"""The indexes of turn memory: items and facts of a session, and all that a user said or is."""

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


def session_of(name: str) -> str:
    """Return the session whose items are in the index of this name."""
    return name.removeprefix("turns/")


def said(user: str) -> TurnIndex:
    """Return the search index of all that was said in the sessions of a user."""
    return named(f"said/{user}")


def searched(session: str, user: str, *, shared: bool) -> TurnIndex:
    """Return the search index of a session's items: that of its user, if it has only one."""
    return said(user) if user and not shared else turns(session)


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


def of_session(session: str) -> list[TurnIndex]:
    """Return all indexes that belong to a session alone."""
    return [turns(session), *facts(session, ""), *insights(session, "")]


def insights_from(facts: str) -> TurnIndex:
    """Return the index of insights about the facts of this index."""
    return named("insights/" + facts.removeprefix("facts/"))
