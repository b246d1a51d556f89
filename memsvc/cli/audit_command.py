"""Command `memsvc audit`: how much of what is remembered is junk, here or in another's export."""

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
from typer import Argument, Option

from memsvc.administration.audit import FINDINGS, Audit, audit_project, exported_memories
from memsvc.cli.options import Owner, owner_of, scopes_of, with_database
from memsvc.cli.settings_option import CommandPlace, using_place
from memsvc.cli.tool_client import Json, OnlyProject
from memsvc.core.errors import not_found
from memsvc.store.database import Database

TEXT_CHARS: Final = 200


@using_place
def audit(
    place: CommandPlace,
    export: Annotated[
        Path | None,
        Argument(help="mem0's JSON or server-memory's JSON lines; else what is stored here."),
    ] = None,
    project: OnlyProject = None,
    tenant: Owner = None,
    max_share: Annotated[
        float, Option(min=0, max=1, help="Exit code 1 where more is junk, as a share.")
    ] = 1.0,
    limit: Annotated[int, Option(min=0, help="Ids to list of each finding.")] = 10,
    show: Annotated[bool, Option("--show", help="List their texts too, secrets masked.")] = False,
    as_json: Json = False,
) -> None:
    """Count duplicates, echoes, secrets and what is out of date, here or in another's export.

    Name the owner of the memory by --tenant or by a key: the variable MEMSVC_API_KEY, else you are
    asked for one. A file needs neither.
    """
    found = Audit(keeps_texts=show)

    async def work(database: Database) -> None:
        owner = await owner_of(database, settings, tenant, project)
        async for scope in scopes_of(database, owner, project):
            await audit_project(database, scope, found)

    if export is not None:
        for entry in exported_memories(export):
            found.add(entry)
    else:
        settings = place.settings()
        with_database(settings, work)
    report = found.report()
    if not report.total:
        raise not_found("nothing is remembered here that could be recalled")
    listed = list(found.found(limit))
    found.close()
    if as_json:
        body: dict[str, Any] = {
            "entries": report.entries,
            "findings": {name: report.count(name) for name in FINDINGS},
            "by_kind": report.findings,
            "junk": report.junk,
            "junk_share": round(report.share, 4),
            "found": [
                {"finding": finding, "id": one, "like": other} | ({"text": text} if show else {})
                for finding, one, other, text in listed
            ],
        }
        print(orjson.dumps(body).decode())
    else:
        print(f"entries\t{report.total}")
        for name in FINDINGS:
            count = report.count(name)
            share = "" if count is None else f"{count / report.total:.2%}"
            print(f"{name}\t{'not known' if count is None else count}\t{share}")
        print(f"junk\t{report.junk}\t{report.share:.2%}")
        for finding, one, other, text in listed:
            shown_text = [" ".join(text.split())[:TEXT_CHARS]] if show else []
            print("\t".join([finding, one, other, *shown_text]))
    if report.share > max_share:
        sys.exit(1)
