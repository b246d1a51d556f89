"""The books that turn memory keeps: a session's items, a session's facts, and a user's facts across sessions."""

from dataclasses import dataclass

from memsvc.store.index import book_of


@dataclass(frozen=True, slots=True)
class Book:
    """A book by name and number."""

    name: str
    number: int


def named(name: str) -> Book:
    """The book of this name."""
    return Book(name, book_of(name))


def turns(session: str) -> Book:
    """The items of a session, in order."""
    return named(f"turns/{session}")


def facts(session: str, user: str) -> list[Book]:
    """The books whose facts a turn of this user in this session may be given: the session's, and the user's own."""
    held = [named(f"facts/session/{session}")]
    return [*held, named(f"facts/user/{user}")] if user else held


def facts_learnt(session: str, user: str) -> Book:
    """The book that new facts go to: the user's where the user is known, so that other sessions have them too."""
    return facts(session, user)[-1]


def insights(session: str, user: str) -> list[Book]:
    """The books of what the facts of this session, and of this user across sessions, come to, in the order of
    `facts`."""
    held = [named(f"insights/session/{session}")]
    return [*held, named(f"insights/user/{user}")] if user else held


def insights_from(facts: str) -> Book:
    """The book of what the facts of this book come to."""
    return named("insights/" + facts.removeprefix("facts/"))


def digests(user: str) -> Book:
    """What the sessions of a user are about, by which they are found from another one."""
    return named(f"digests/{user}")
