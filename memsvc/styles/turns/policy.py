"""Policy of a session, meta/policy.json, which overrides the options."""

from datetime import datetime, timedelta
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memsvc.core.errors import Code, MemsvcError
from memsvc.core.facts import Tier
from memsvc.core.problems import plain
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
    max_hot_shard_bytes: int = Field(8_388_608, ge=1)
    min_shard_age_hours: int = Field(24, ge=1)
    compression: Literal["zstd"] = "zstd"


class SummaryPolicy(BaseModel):
    """The summaries of directories; only the refresh interval can be chosen."""

    model_config = _CONFIG

    abstract_words_min: Literal[100] = 100
    abstract_words_max: Literal[200] = 200
    overview_words_max: Literal[2000] = 2000
    refresh_interval_minutes: int = Field(60, ge=1)


class Policy(BaseModel):
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
    max_input_tok: int = Field(120_000, ge=100)
    store: bool = True
    ttl_days: int | None = Field(None, ge=1, le=DAYS_MAX)

    def expires_at(self, tier: Tier, now: datetime) -> datetime | None:
        """Return midnight UTC of today plus the tier's days.

        None for facts that are kept for good."""
        days = {Tier.L0: self.tiers.L0, Tier.L1: self.tiers.L1, Tier.L2: self.tiers.L2}[tier].retention_days
        if not days:
            return None
        return now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=days)


def default_policy(options: TurnOptions) -> Policy:
    """Return the policy of a session that has none of its own."""
    return Policy(
        tiers=Tiers(
            L1=TierPolicy(retention_days=options.l1_retention_days),
            L2=TierPolicy(retention_days=options.l2_retention_days),
        ),
        compaction=CompactionPolicy(min_shard_age_hours=options.compaction_min_age_hours),
        summary=SummaryPolicy(refresh_interval_minutes=options.summary_refresh_interval_minutes),
        max_input_tok=options.max_input_tok,
    )


def policy_of(own: dict[str, Any] | None, options: TurnOptions) -> Policy:
    """Return the effective policy of a session: its stored policy over the options."""
    default = default_policy(options)
    return Policy.model_validate(_over(default.model_dump(), own)) if own else default


def own_policy(content: bytes, options: TurnOptions) -> dict[str, Any]:
    """Return the settings of a written policy that differ from the options.

    Only these are stored, so that later changes of the options apply to the session too.
    INVALID_CONTENT with the errors."""
    if len(content) > POLICY_BYTES_MAX:
        raise MemsvcError(Code.INVALID_CONTENT, f"a policy has {POLICY_BYTES_MAX} bytes at the most")
    try:
        given = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise MemsvcError(Code.INVALID_CONTENT, "a policy is one JSON object") from error
    if not isinstance(given, dict):
        raise MemsvcError(Code.INVALID_CONTENT, "a policy is one JSON object")
    default = default_policy(options).model_dump()
    try:
        policy = Policy.model_validate(_over(default, given))
    except ValidationError as error:
        raise MemsvcError(Code.INVALID_CONTENT, f"this policy cannot be: {_told(error)}") from error
    return _beyond(policy.model_dump(), default)


def _over(default: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    whole = dict(default)
    for name, value in given.items():
        below = whole.get(name)
        whole[name] = _over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return whole


def _beyond(whole: dict[str, Any], default: dict[str, Any]) -> dict[str, Any]:
    own: dict[str, Any] = {}
    for name, value in whole.items():
        if isinstance(value, dict):
            if inner := _beyond(value, default[name]):
                own[name] = inner
        elif value != default[name]:
            own[name] = value
    return own


def _told(error: ValidationError) -> str:
    places = [(".".join(map(str, one["loc"])), plain(one)) for one in error.errors(include_input=False)]
    return "; ".join(f"{place}: {message}" for place, message in places[:5])
