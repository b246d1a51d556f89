"""Command `memsvc audit`: how much junk this memory or an exported file contains."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
from typer import Argument, Option

from memsvc.administration.audit import Audit, audit_projects, audit_result, exported_memories
from memsvc.cli.options import Owner, owner_of, with_database
from memsvc.cli.settings_option import CommandPlace, using_place
from memsvc.cli.tool_client import Json, OnlyProject, local_bytes
from memsvc.core.errors import not_found
from memsvc.core.paths import check_project
from memsvc.core.scope import ALL_PROJECTS, Scope
from memsvc.settings import Settings
from memsvc.store.database import Database

TEXT_CHARS: Final = 200


@using_place
def audit(
    place: CommandPlace,
    export: Annotated[
        Path | None,
        Argument(
            help="A file exported from mem0 (JSON) or server-memory (JSON lines); - means"
            " standard input. Without a file, the command audits the memory of the key's"
            " tenant or of --tenant.",
            allow_dash=True,
        ),
    ] = None,
    project: OnlyProject = None,
    tenant: Owner = None,
    max_share: Annotated[
        float,
        Option(
            min=0,
            max=1,
            help="Exit with code 1 if more than this share of the entries is junk (0 to 1).",
        ),
    ] = 1.0,
    limit: Annotated[
        int, Option(min=0, help="Maximum number of entry ids to list for each kind of problem.")
    ] = 10,
    show: Annotated[
        bool,
        Option("--show", help="Also print the texts of the listed entries, with secrets masked."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Count duplicates, echoes of recalled text, secrets and outdated entries in memory or a file.

    Without a file, the command audits the memory of the key in MEMSVC_API_KEY (also on a server),
    or of --tenant in the data folder or database. A file needs neither a key nor a tenant."""
    if export is not None:
        audit = Audit(keeps_texts=show)
        audit.add_all(exported_memories(local_bytes(export)))
        body = asdict(audit_result(audit, limit))
    elif place.server and tenant is None:
        body = place.call("tenant_audit", project=project or ALL_PROJECTS, limit=limit, show=show)
    else:
        body = _audit_here(place.settings(), project, tenant, limit, show=show)
    total = sum(body["entries"].values())
    if not total:
        raise not_found("the audited memory does not contain any entries that can be recalled")
    if as_json:
        print(orjson.dumps(body).decode())
    else:
        _print_report(body, total)
    if body["junk"] / total > max_share:
        sys.exit(1)


def _audit_here(
    settings: Settings, project: str | None, tenant: str | None, limit: int, *, show: bool
) -> dict[str, Any]:
    """Audit what is stored in the data folder or the database itself."""

    async def work(database: Database) -> dict[str, Any]:
        audit = Audit(keeps_texts=show)
        owner = await owner_of(database, settings, tenant, project)
        scope = Scope(owner, ALL_PROJECTS if project is None else check_project(project))
        await audit_projects(database, scope, audit)
        return asdict(audit_result(audit, limit))

    return with_database(settings, work)


def _print_report(body: dict[str, Any], total: int) -> None:
    print(f"entries\t{total}")
    for name, count in body["findings"].items():
        share = "" if count is None else f"{count / total:.2%}"
        print(f"{name}\t{'unknown' if count is None else count}\t{share}")
    print(f"junk\t{body['junk']}\t{body['junk'] / total:.2%}")
    for one in body["found"]:
        text = [] if not one["text"] else [" ".join(one["text"].split())[:TEXT_CHARS]]
        print("\t".join([one["finding"], one["id"], one["like"], *text]))
