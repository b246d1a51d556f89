"""Limits that apply to a tenant: retention, quotas and rates, in the words of the settings."""

from collections.abc import Mapping, Sequence
from typing import Final

from memsvc.administration.limit_tools import EffectiveLimits, Kind, TenantLimit
from memsvc.settings import Settings

_RATES: Final = "limits.rates."
SETTINGS_BY_KIND: Final[Mapping[Kind, Sequence[str]]] = {
    "retention": (
        "files.versions_kept",
        "files.versions_days",
        "files.delete_retention_days",
        "whiteboard.history_kept",
        "settings.mcp.memory.l1_retention_days",
        "settings.mcp.memory.l2_retention_days",
        "settings.mcp.memory.compaction_min_age_hours",
        "settings.mcp.memory.trace.days",
        "memories.decay_days",
        "audit.retention_days",
    ),
    "quota": (
        "limits.stored.tenant_bytes_max",
        "files.tenant_bytes_max",
        "files.project_bytes_max",
        "files.file_bytes_max",
        "files.payload_bytes_max",
        "limits.request_bytes_max",
        "notebook.documents_max",
        "notebook.document_bytes_max",
        "whiteboard.boards_max",
        "knowledge.blocks_max",
        "memories.users_max",
        "memories.per_user_max",
        "archives.archive_bytes_max",
        "settings.mcp.memory.recall_tok_max",
        "settings.mcp.memory.max_input_tok",
    ),
    "rate": (
        f"{_RATES}key_calls_s",
        f"{_RATES}tenant_calls_s",
        f"{_RATES}key_requests_s",
        f"{_RATES}tenant_requests_s",
        f"{_RATES}key_calls_at_once",
        f"{_RATES}tenant_calls_at_once",
        "limits.model_calls_a_day",
        "files.summaries.a_day",
        "knowledge.judgements_a_day",
    ),
}


def effective_limits(settings: Settings) -> EffectiveLimits:
    """Return a function from a tenant to its limits; rates are scaled by the tenant's factor."""
    rates = settings.limits.rates
    limits = [
        _limit(settings, kind, path)
        for kind, paths in SETTINGS_BY_KIND.items()
        for path in paths
        if rates.enabled or not path.startswith(_RATES)
    ]

    def of(tenant: bytes) -> list[TenantLimit]:
        factor = rates.factor(tenant)
        return [
            TenantLimit(one.kind, one.setting, one.value * factor, one.description)
            if one.setting.startswith(_RATES)
            else one
            for one in limits
        ]

    return of


def _limit(settings: Settings, kind: Kind, path: str) -> TenantLimit:
    *parents, name = path.split(".")
    options = settings
    for section in parents:
        options = getattr(options, section)
    return TenantLimit(
        kind, path, getattr(options, name), type(options).model_fields[name].description or ""
    )
