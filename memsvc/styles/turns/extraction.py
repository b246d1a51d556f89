"""Rules that find facts in what a user says: each rule is a line of data."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from memsvc.core.facts import Evidence, Statement, Tier, slot_of
from memsvc.core.items import Item, role_of, text_parts
from memsvc.styles.turns.block import is_data

VALUE_BYTES_MAX = 128
STATEMENTS_MAX = 64


@dataclass(frozen=True, slots=True)
class Rule:
    """A marker in a user's words and the fact that what follows it states.

    `cues` are words under which the fact is found; `asked` is a pattern of questions that ask for all facts of the rule
    in words too common to search by. `many` is true where several values hold side by side, as with things one likes.
    """

    marker: str
    record: str
    fact_id: str
    key: str
    tier: Tier
    confidence: float
    cues: str
    asked: str = ""
    many: bool = False


_LIKES = r"\bdo i (like|love|enjoy)\b|\bmy (likes|favou?rites?)\b"

RULES: tuple[Rule, ...] = (
    Rule("my name is ", "name", "user_name", "name", Tier.L0, 0.95, "name called who am i"),
    Rule("i prefer ", "prefer", "user_preference", "preference", Tier.L0, 0.92, "prefer favourite favorite better"),
    Rule("i like ", "like", "user_like", "like", Tier.L2, 0.85, "like enjoy favourite favorite", _LIKES, many=True),
    Rule("today i need ", "today-task", "today_task", "today_task", Tier.L1, 0.80, "today need task plan"),
    Rule("this week i need ", "week-task", "weekly_task", "weekly_task", Tier.L2, 0.82, "week need task plan"),
)

# A value ends at a line break, at , ; ! ? and at a full stop that ends a sentence (not at one inside `3.11`).
_VALUE = r"(?P<value>[^\n,;!?]*?)(?=\.(?:\s|$)|[\n,;!?]|$)"
_PATTERNS = tuple(
    (rule, re.compile(rf"(?<!\w){words}[ \t]+{_VALUE}", re.IGNORECASE))
    for rule in RULES
    for words in [r"\s+".join(map(re.escape, rule.marker.split()))]
)


def extract(items: Sequence[tuple[str, Item]], *, session: str, turn: str, user: str) -> list[Statement]:
    """The statements in the user messages of a turn, in order of their items (pairs of event id and item).

    Only what the user says is read: the rules are in the first person, an assistant's "my name is" is not about the
    user, and tool output or recalled memory is nobody's statement. At most 64 a turn.
    """
    return _numbered(islice(_said(items, session=session, turn=turn, user=user), STATEMENTS_MAX))


def states_anything(items: Sequence[Item]) -> bool:
    """Whether the user says anything in these items that a rule reads."""
    return next(_said([("", item) for item in items], session="", turn="", user=""), None) is not None


def _said(items: Sequence[tuple[str, Item]], *, session: str, turn: str, user: str) -> Iterator[Statement]:
    for event, item in items:
        if role_of(item) != "user" or is_data(item):
            continue
        text = "\n".join(text_parts(item)).replace("\x00", "")
        for rule, pattern in _PATTERNS:
            for match in pattern.finditer(text):
                value = _bounded(match["value"])
                if value:
                    evidence = Evidence(session, turn, event, user)
                    yield _statement(rule, value, f"{turn}-fact-{rule.record}", evidence)


def _statement(rule: Rule, value: str, record: str, evidence: Evidence) -> Statement:
    slot = slot_of(value) if rule.many else ""
    return Statement(record, rule.fact_id, rule.key, slot, value, rule.tier, rule.confidence, rule.cues, evidence)


def _bounded(value: str) -> str:
    value = value.strip().rstrip(".").strip()
    return value if len(value.encode("utf-8", "replace")) <= VALUE_BYTES_MAX else ""


def _numbered(statements: Iterable[Statement]) -> list[Statement]:
    """Statements of one rule in one turn get records of their own: the first keeps the plain name."""
    seen: dict[str, int] = {}
    numbered = []
    for statement in statements:
        count = seen[statement.record] = seen.get(statement.record, 0) + 1
        record = statement.record if count == 1 else f"{statement.record}-{count}"
        numbered.append(replace(statement, record=record))
    return numbered
