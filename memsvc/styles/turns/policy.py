"""Policy of a session, meta/policy.json, which overrides the options."""

from datetime import datetime, timedelta
from typing import Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memsvc.core.errors import invalid_content
from memsvc.core.facts import (
    DATED_IDS,
    LASTING_IDS,
    PROFILE_CLASSES,
    FactTier,
    ProfileClass,
    Statement,
)
from memsvc.core.json_text import JsonObject
from memsvc.core.options import Count
from memsvc.core.time_references import midnight, plan_end
from memsvc.core.validation_messages import validation_message
from memsvc.styles.turns.options import TurnOptions

POLICY_BYTES_MAX = 16 * 1024
DAYS_MAX = 36500

_CONFIG = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class TierPolicy(BaseModel):
    """Retention of a tier's facts: `retention_days` 0 is for good.

    Without `sweep` an expired fact is no longer recalled but stays in its files."""

    model_config = _CONFIG

    retention_days: int = Field(0, ge=0, le=DAYS_MAX)
    sweep: bool = True


class Tiers(BaseModel):
    model_config = _CONFIG

    L0: TierPolicy = TierPolicy(retention_days=0, sweep=False)
    L1: TierPolicy = TierPolicy(retention_days=1)
    L2: TierPolicy = TierPolicy(retention_days=7)


class CompactionPolicy(BaseModel):
    """When older context is summarised and raw events are archived, if at all."""

    model_config = _CONFIG

    enabled: bool = True
    max_hot_shard_bytes: Count = 8_388_608
    min_shard_age_hours: Count = 24
    compression: Literal["zstd"] = "zstd"


class SummaryPolicy(BaseModel):
    """The summaries of directories; only the refresh interval can be chosen."""

    model_config = _CONFIG

    abstract_words_min: Literal[100] = 100
    abstract_words_max: Literal[200] = 200
    overview_words_max: Literal[2000] = 2000
    refresh_interval_minutes: Count = 60


class ProfilePolicy(BaseModel):
    """The classes of facts about a person that every memory block of the session tells."""

    model_config = _CONFIG

    classes: tuple[ProfileClass, ...] = PROFILE_CLASSES


class SessionPolicy(BaseModel):
    """The policy of a session.

    `store` false: turns are answered, and nothing of them is stored. `ttl_days`: messages and facts
    older than that are removed; None keeps them. Facts about a user are shared with the user's
    other sessions, and stay."""

    model_config = _CONFIG

    version: Literal[1] = 1
    timezone: Literal["UTC"] = "UTC"
    tiers: Tiers = Tiers()
    compaction: CompactionPolicy = CompactionPolicy()
    summary: SummaryPolicy = SummaryPolicy()
    profile: ProfilePolicy = ProfilePolicy()
    max_input_tok: int = Field(120_000, ge=100)
    store: bool = True
    ttl_days: int | None = Field(None, ge=1, le=DAYS_MAX)

    def expires_at(self, statement: Statement, now: datetime) -> datetime | None:
        """Return when a fact that was stated `now` ends; None for one that lasts.

        What somebody likes, and what has no date, lasts. A plan or reminder ends when the last day
        is over that it names, a task of the day or the week after the days of its tier, at midnight
        by the offset of `now`."""
        tier = statement.tier
        if statement.fact_id in LASTING_IDS:
            return None
        if statement.fact_id in DATED_IDS and tier is not FactTier.L1:
            return plan_end(f"{statement.statement} {statement.value} {statement.words}", now)
        days: int = getattr(self.tiers, tier).retention_days
        if not days:
            return None
        return midnight(now) + timedelta(days=days)


def default_policy(options: TurnOptions) -> SessionPolicy:
    """Return the policy of a session that has none of its own."""
    return SessionPolicy(
        tiers=Tiers(
            L1=TierPolicy(retention_days=options.l1_retention_days),
            L2=TierPolicy(retention_days=options.l2_retention_days),
        ),
        compaction=CompactionPolicy(min_shard_age_hours=options.compaction_min_age_hours),
        summary=SummaryPolicy(refresh_interval_minutes=options.summary_refresh_interval_minutes),
        profile=ProfilePolicy(classes=options.profile.classes),
        max_input_tok=options.max_input_tok,
    )


def policy_of(stored: JsonObject | None, options: TurnOptions) -> SessionPolicy:
    """Return the effective policy of a session: its stored policy over the options."""
    default = default_policy(options)
    return SessionPolicy.model_validate(_merge(default.model_dump(), stored)) if stored else default


def policy_overrides(content: bytes, options: TurnOptions) -> JsonObject:
    """Return the settings of a written policy that differ from the options.

    Only these are stored, so that later changes of the options apply to the session too.
    INVALID_CONTENT with the errors."""
    if len(content) > POLICY_BYTES_MAX:
        raise invalid_content(f"a policy is limited to {POLICY_BYTES_MAX} bytes")
    try:
        values = orjson.loads(content)
    except orjson.JSONDecodeError:
        values = None
    if not isinstance(values, dict):
        raise invalid_content("a policy must be a JSON object")
    default = default_policy(options).model_dump()
    try:
        policy = SessionPolicy.model_validate(_merge(default, values))
    except ValidationError as error:
        raise invalid_content(f"the policy is not valid: {_error_message(error)}") from error
    return _difference(policy.model_dump(), default)


def _merge(default: JsonObject, overrides: JsonObject) -> JsonObject:
    merged = dict(default)
    for name, value in overrides.items():
        nested = merged.get(name)
        merged[name] = (
            _merge(nested, value) if isinstance(nested, dict) and isinstance(value, dict) else value
        )
    return merged


def _difference(values: JsonObject, default: JsonObject) -> JsonObject:
    overrides = {}
    for name, value in values.items():
        if isinstance(value, dict):
            if inner := _difference(value, default[name]):
                overrides[name] = inner
        elif value != default[name]:
            overrides[name] = value
    return overrides


def _error_message(error: ValidationError) -> str:
    places = [
        (".".join(map(str, one["loc"])), validation_message(one))
        for one in error.errors(include_input=False)
    ]
    return "; ".join(f"{place}: {message}" for place, message in places[:5])
