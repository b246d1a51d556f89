"""The indexes of turn memory: a session's items, a session's facts, and a user's facts."""

from dataclasses import dataclass

from memsvc.store.index import book_of


@dataclass(frozen=True, slots=True)
class Book:
    """An index by name and number."""

    name: str
    number: int


def named(name: str) -> Book:
    """Return the index with this name."""
    return Book(name, book_of(name))


def turns(session: str) -> Book:
    """Return the index of a session's items, in order."""
    return named(f"turns/{session}")


def facts(session: str, user: str) -> list[Book]:
    """Return the fact indexes of a turn: the session's and, if given, the user's."""
    held = [named(f"facts/session/{session}")]
    return [*held, named(f"facts/user/{user}")] if user else held


def facts_learnt(session: str, user: str) -> Book:
    """Return the index for new facts: the user's where known, so other sessions have them too."""
    return facts(session, user)[-1]


def insights(session: str, user: str) -> list[Book]:
    """Return the insight indexes of a session and its user, in the order of `facts`."""
    held = [named(f"insights/session/{session}")]
    return [*held, named(f"insights/user/{user}")] if user else held


def insights_from(facts: str) -> Book:
    """Return the index of insights about the facts of this index."""
    return named("insights/" + facts.removeprefix("facts/"))


def digests(user: str) -> Book:
    """Return the index of a user's session digests, used to find a session from another one."""
    return named(f"digests/{user}")
