"""The tool that reports a tenant's usage: tenant_usage."""

from datetime import datetime

from pydantic import Field

from memsvc.administration.tenant_usage import ProjectUsage, TenantUsage
from memsvc.core.scope import Permission, Scope
from memsvc.core.tool_methods import admin_tool
from memsvc.core.tools import Result


class UsageCounts(Result):
    files: int = Field(0, description="files that callers wrote")
    file_bytes: int = Field(0, description="what these hold: what counts against the quota")
    contents: int = Field(
        0, description="contents of files, past ones included, without what was only appended"
    )
    stored_bytes: int = Field(
        0, description="what all files hold, those of the memory itself and past ones included"
    )
    turn_bytes: int = Field(
        0, description="what the files of turn memory hold, deleted ones until they are purged"
    )
    board_bytes: int = Field(0, description="what whiteboards hold, likewise")
    document_bytes: int = Field(0, description="what documents of the notebook hold, likewise")
    past_bytes: int = Field(0, description="what files held before, and can be restored")
    knowledge_bytes: int = Field(0, description="what blocks of knowledge say")
    memories_bytes: int = Field(0, description="what memories say, past ones included")
    derived_bytes: int = Field(
        0,
        description="what is derived from all of these, about: the index, facts, vectors, recall"
        " traces",
    )
    held_bytes: int = Field(
        0, description="all of that and files: what counts against the tenant's quota"
    )
    memory_file_bytes: int = Field(0, description="what the files of the memory itself hold now")
    sessions: int = Field(0, description="sessions of turn memory")
    turns: int = Field(0, description="turns in these")
    facts: int = Field(0, description="facts that hold, memories among them")
    memories: int = Field(0, description="memories, deleted ones included")
    boards: int = Field(0, description="whiteboards")
    documents: int = Field(0, description="documents of the notebook")
    blocks: int = Field(0, description="blocks of knowledge, archived ones included")
    index_entries: int = Field(0, description="entries of the index that can be found")
    vectors: int = Field(0, description="vectors of these")
    jobs: int = Field(0, description="jobs in the queue")
    calls: dict[str, int] = Field({}, description="calls of the last 24 hours, by how they ended")


class ProjectUsageCounts(UsageCounts):
    project: str = Field(description="the project; * for calls that named none")


class UsageResult(Result):
    total: UsageCounts = Field(description="all of these projects together")
    projects: list[ProjectUsageCounts] = Field(
        description="each project in which anything is, by name"
    )
    counted_at: datetime = Field(
        description="when that was counted; what took long to count is told again for 20 times as"
        " long, or a minute"
    )
    tenant_bytes_max: int = Field(
        description="what the tenant may hold in all of its projects; 0: without a limit"
    )
    unbounded_until: datetime | None = Field(
        description="until when the tenant may hold more, as one who was there before there was"
        " the quota"
    )
    model_calls: dict[str, int] = Field(
        description="how often models were asked today (UTC), by purpose"
    )
    model_calls_a_day: int = Field(description="how often they may be; 0: without a limit")


class UsageTools:
    """The tool tenant_usage."""

    def __init__(self, usage: TenantUsage) -> None:
        self._usage = usage

    @admin_tool(
        "tenant_usage",
        title="Tell what is held",
        needs=Permission.READ,
        project="the project, or * for all of your projects",
    )
    async def usage(self, scope: Scope) -> UsageResult:
        """Tell what each project holds and in sum.

        Files, sessions, facts, boards, documents, blocks, the index, jobs that wait, and the calls
        of the last 24 hours."""
        report = await self._usage.report(scope)
        return UsageResult(
            total=UsageCounts.model_validate(_as_counts(report.total)),
            projects=[
                ProjectUsageCounts.model_validate({"project": name} | _as_counts(one))
                for name, one in report.projects.items()
            ],
            counted_at=report.counted_at,
            tenant_bytes_max=report.quota.bytes_max,
            unbounded_until=report.unbounded_until,
            model_calls=dict(sorted(report.model_calls.items())),
            model_calls_a_day=report.calls_a_day,
        )


def _as_counts(usage: ProjectUsage) -> dict[str, object]:
    return {**usage.counts, "calls": dict(sorted(usage.calls.items()))}
