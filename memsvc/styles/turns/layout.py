"""Where a session's files stand, and the JSON lines in them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from memsvc.core.facts import Fact, Merge, Statement, Tier
from memsvc.core.items import Item
from memsvc.core.paths import encode_segment
from memsvc.store.facts import Dated

OWNER = "turns"
ROOT = "/memory"


def session_root(session: str) -> str:
    """The directory of a session."""
    return f"{ROOT}/{encode_segment(session)}"


def raw_events(session: str, now: datetime) -> str:
    """The file that the events of a day are appended to."""
    return f"{session_root(session)}/events/raw/{now:%Y/%m/%d}/log-{now:%Y%m%d}.jsonl"


def tier_file(session: str, tier: Tier, now: datetime) -> str:
    """The file that a fact's records are appended to: by month for L0, by day for L1, by ISO week for L2."""
    directory = f"{session_root(session)}/memory_tiers/{tier}"
    match tier:
        case Tier.L0:
            return f"{directory}/{now:%Y/%m}/facts-{now:%Y%m}.jsonl"
        case Tier.L1:
            return f"{directory}/{now:%Y/%m}/facts-{now:%Y%m%d}.jsonl"
        case Tier.L2:
            year, week, _ = now.isocalendar()
            return f"{directory}/{year}/{week:02d}/facts-{year}-W{week:02d}.jsonl"


def event_id(turn: str, direction: str, index: int) -> str:
    """The id of one item of a turn: `direction` is `in` or `out`."""
    return f"{turn}-{direction}-{index}"


def turn_of(event: str) -> str:
    """The turn that an event id belongs to."""
    return event.rsplit("-", 2)[0]


def event_line(event: str, turn: str, user: str, direction: str, item: Item, now: datetime) -> bytes:
    """One line of an event file."""
    metadata = item.get("metadata") or {}
    record = {
        "id": event,
        "ts": timestamp(now),
        "type": "input_item" if direction == "in" else "output_item",
        "turn_id": turn,
        "user_id": user,
        "item_id": metadata.get("item_id") or item.get("id") or event,
        "item": item,
    }
    return orjson.dumps(record) + b"\n"


def fact_lines(merge: Merge, dated: Sequence[Dated], now: datetime) -> dict[str, bytes]:
    """The records of a merge by the tier file that each belongs to."""
    lines: dict[str, bytes] = {}
    for fact, by in merge.replaced:
        old = fact.statement
        path = tier_file(old.evidence.session, old.tier, fact.valid_from)
        lines[path] = lines.get(path, b"") + superseded_line(fact, by, now)
    for one in dated:
        path = tier_file(one.statement.evidence.session, one.statement.tier, now)
        lines[path] = lines.get(path, b"") + fact_line(one.statement, now, one.expires_at)
    return lines


def fact_line(statement: Statement, now: datetime, expires_at: datetime | None) -> bytes:
    """The record of a fact that holds from now on."""
    return _fact_record(statement, "fact_upsert", now, state="active", expires_at=expires_at)


def superseded_line(fact: Fact, by: str, now: datetime) -> bytes:
    """The record of a fact that another one replaced; it stands in the file of the fact that it closes."""
    return _fact_record(
        fact.statement, "fact_supersede", now, state="superseded", expires_at=fact.expires_at, superseded_by=by
    )


def _fact_record(
    statement: Statement,
    kind: str,
    now: datetime,
    *,
    state: str,
    expires_at: datetime | None,
    superseded_by: str | None = None,
) -> bytes:
    record: dict[str, Any] = fact_fields(statement, state, expires_at) | {"ts": timestamp(now), "type": kind}
    if kind != "fact_upsert":
        record |= {"id": f"{statement.record}-{kind}", "of": statement.record}
    if superseded_by is not None:
        record["superseded_by"] = superseded_by
    return orjson.dumps(record) + b"\n"


def fact_fields(statement: Statement, state: str, expires_at: datetime | None) -> dict[str, Any]:
    """The members that every record of a fact has."""
    fields: dict[str, Any] = {
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
    if expires_at is not None:
        fields["expires_at"] = timestamp(expires_at)
    return fields


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
