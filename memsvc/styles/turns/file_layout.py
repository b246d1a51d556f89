"""Paths of a session's files, and the JSON lines in them."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from memsvc.core.facts import Doubt, Fact, FactState, FactTier, Merge, Statement
from memsvc.core.items import Item
from memsvc.core.json_text import JsonObject
from memsvc.core.paths import SESSIONS_ROOT, encode_segment
from memsvc.store.facts import StatementWithExpiry, doubt_fields_of

OWNER = "turns"
ROOT = SESSIONS_ROOT


def session_root(session: str) -> str:
    """Return the directory of a session."""
    return f"{ROOT}/{encode_segment(session)}"


def raw_events(session: str, now: datetime) -> str:
    """Return the file that the events of a day are appended to."""
    return f"{session_root(session)}/events/raw/{now:%Y/%m/%d}/log-{now:%Y%m%d}.jsonl"


def tier_file(session: str, tier: FactTier, now: datetime) -> str:
    """Return the file of a fact's records: by month for L0, by day for L1, by ISO week for L2."""
    directory = f"{session_root(session)}/memory_tiers/{tier}"
    now = now.astimezone(UTC)
    match tier:
        case FactTier.L0:
            return f"{directory}/{now:%Y/%m}/facts-{now:%Y%m}.jsonl"
        case FactTier.L1:
            return f"{directory}/{now:%Y/%m}/facts-{now:%Y%m%d}.jsonl"
        case FactTier.L2:
            year, week, _ = now.isocalendar()
            return f"{directory}/{year}/{week:02d}/facts-{year}-W{week:02d}.jsonl"


def fact_file(fact: Fact) -> str:
    """Return the file of the records of a fact."""
    statement = fact.statement
    return tier_file(statement.evidence.session, statement.tier, fact.valid_from)


def event_id(turn: str, direction: str, index: int) -> str:
    """Return the id of one item of a turn: `direction` is `in` or `excluded`."""
    return f"{turn}-{direction}-{index}"


def summary_events(session: str, now: datetime) -> str:
    """Return the file that the summaries of a day are appended to."""
    return f"{session_root(session)}/events/compact/{now:%Y/%m/%d}/compact-{now:%Y%m%d}.jsonl"


def insights_file(session: str, now: datetime) -> str:
    """Return the file that the insights of a day are appended to."""
    return f"{session_root(session)}/insights/{now:%Y/%m/%d}/insights-{now:%Y%m%d}.jsonl"


def summary_for_prompt(line: bytes | None) -> JsonObject | None:
    """Return a summary event as a prompt shows it; None without one, or when it is empty."""
    if line is None:
        return None
    event = orjson.loads(line)
    if not event.get("summary"):
        return None
    range_fields = event.get("covers") or {}
    return {
        "id": event["id"],
        "from": range_fields.get("from"),
        "to": range_fields.get("to"),
        "text": event["summary"],
    }


def turn_of(event: str) -> str:
    """Return the turn that an event id belongs to."""
    return event.rsplit("-", 2)[0]


def event_line(
    event: str,
    turn: str,
    user: str,
    direction: str,
    item: Item,
    now: datetime,
    *,
    item_id: str = "",
    result: Any = None,
) -> bytes:
    """Return one line of an event file.

    `item_id` is the item's existing id, if any; `result` is on the last line of a turn and answers
    a retry of the turn."""
    metadata = item.get("metadata") or {}
    return _event_line(
        event,
        "input_item" if direction == "in" else "output_item",
        now,
        turn_id=turn,
        user_id=user,
        item_id=item_id or metadata.get("item_id") or item.get("id") or event,
        item=item,
        **({} if result is None else {"result": result}),
    )


def _event_line(name: str, kind: str, now: datetime, **fields: Any) -> bytes:
    return json_line({"id": name, "ts": exact_timestamp(now), "type": kind, **fields})


def json_line(record: JsonObject) -> bytes:
    """Return a record as a line of JSON."""
    return orjson.dumps(record) + b"\n"


def item_line(event: str, state: str, now: datetime, **fields: Any) -> bytes:
    """Return the event line that says what an item is from there on.

    "redacted" when something of it was forgotten, with the `digest` of the whole item, keyed, by
    which it is known when it is sent again; "restored" when all of it is remembered again."""
    return _event_line(f"{event}-{state}", f"item_{state}", now, of=event, **fields)


def restored_turn_line(turn: str, now: datetime) -> bytes:
    """Return the event line that marks a forgotten turn as remembered from there on."""
    return _event_line(f"{turn}-restored", "turn_restored", now, turn_id=turn)


def forgotten_turn_line(turn: str, now: datetime) -> bytes:
    """Return the event line that marks a turn as forgotten from there on."""
    return _event_line(f"{turn}-forgotten", "turn_forgotten", now, turn_id=turn)


def fact_lines(
    merge: Merge,
    new_facts: Sequence[StatementWithExpiry],
    now: datetime,
    *,
    forgotten: bool = False,
) -> defaultdict[str, bytes]:
    """Return the records of a merge by tier file.

    `forgotten`: deleted facts must not be shown as past facts either."""
    lines = defaultdict[str, bytes](bytes)
    said_at = {new_fact.statement.record: new_fact.said_at or now for new_fact in new_facts}
    for fact, record in merge.replaced:
        end = max(said_at.get(record, now), fact.valid_from)
        lines[fact_file(fact)] += superseded_line(fact, record, end)
    for fact in merge.deleted:
        lines[fact_file(fact)] += deleted_line(fact, now, forgotten=forgotten)
    for fact, doubt in merge.questioned:
        lines[fact_file(fact)] += questioned_line(fact, doubt, now)
    for new_fact in new_facts:
        statement, start = new_fact.statement, said_at[new_fact.statement.record]
        path = tier_file(statement.evidence.session, statement.tier, start)
        lines[path] += fact_line(statement, start, new_fact.expires_at)
        if (newer := new_fact.newer) is not None:
            past = Fact(
                *(0, statement, FactState.SUPERSEDED, start, newer.valid_from),
                *(new_fact.expires_at, newer.statement.record),
            )
            lines[path] += superseded_line(past, newer.statement.record, newer.valid_from)
    return lines


def fact_line(statement: Statement, now: datetime, expires_at: datetime | None) -> bytes:
    """Return the record of a fact that is valid from now on."""
    record = {"ts": exact_timestamp(now), "type": "fact_upsert"} | _cues(statement)
    return json_line(fact_fields(statement, "active", expires_at) | record)


def superseded_line(fact: Fact, by: str, now: datetime) -> bytes:
    """Return the record of a replaced fact, for the file of the fact that it closes."""
    cues = _cues(fact.statement)
    return _change_line(fact, "fact_supersede", "superseded", now, superseded_by=by, **cues)


def questioned_line(fact: Fact, doubt: Doubt | None, now: datetime) -> bytes:
    """Return the record of a fact in doubt, or no longer, for the file of the fact."""
    state = "questioned" if doubt else "active"
    return _change_line(fact, "fact_question", state, now, doubt=doubt_fields_of(doubt))


def deleted_line(fact: Fact, now: datetime, *, forgotten: bool = False) -> bytes:
    """Return the record of a deleted fact, for the file of the fact that it closes."""
    more = {"deleted_at": timestamp(now)} | ({"forgotten": True} if forgotten else {})
    return _change_line(fact, "fact_delete", "deleted", now, **more, **_cues(fact.statement))


def restored_line(fact: Fact, now: datetime) -> bytes:
    """Return the record of a forgotten fact that is remembered again, for the file of the fact."""
    valid_to = exact_timestamp(fact.valid_to) if fact.valid_to else None
    state, by = fact.state.value, fact.superseded_by
    return _change_line(fact, "fact_restore", state, now, superseded_by=by, valid_to=valid_to)


def _change_line(fact: Fact, kind: str, state: str, now: datetime, **more: Any) -> bytes:
    """Return the record of a change of a fact, which has an id of its own."""
    name = fact.statement.record
    record = {"ts": exact_timestamp(now), "type": kind, "id": f"{name}-{kind}", "of": name}
    return json_line(fact_fields(fact.statement, state, fact.expires_at) | record | more)


def _cues(statement: Statement) -> JsonObject:
    return {"cues": statement.keywords} if statement.keywords else {}


def fact_fields(statement: Statement, state: str, expires_at: datetime | None) -> JsonObject:
    """Return the members that every record of a fact has."""
    fields: JsonObject = {
        "id": statement.record,
        "fact_id": statement.fact_id,
        "key": statement.key,
        "value": statement.value,
        "confidence": round(statement.confidence, 4),
        "tier": statement.tier.value,
        "state": state,
        "source_session_id": statement.evidence.session,
        "source_turn_id": statement.evidence.turn,
        "source_item_id": statement.evidence.item,
        "source_user_id": statement.evidence.user,
    }
    if statement.slot:
        fields["slot"] = statement.slot
    if statement.statement:
        fields["statement"] = statement.statement
    if statement.evidence.origin != "rule":
        fields["origin"] = statement.evidence.origin
    if expires_at is not None:
        fields["expires_at"] = timestamp(expires_at)
    return fields


def is_of(line: bytes, records: Collection[str]) -> bool:
    """Return whether a line is one of these records, or of a change of one."""
    record = orjson.loads(line)
    return record["id"] in records or record.get("of") in records


def exact_timestamp(time: datetime) -> str:
    """Return RFC 3339 with fractional seconds and offset: derived data keeps the exact time."""
    return time.isoformat().replace("+00:00", "Z")


def timestamp(time: datetime) -> str:
    """Return RFC 3339 in UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
