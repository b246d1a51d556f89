"""Distribution of the tables of a migrated schema over a Citus cluster; it can be resumed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from memsvc.core.errors import Code, MemsvcError
from memsvc.store import citus
from memsvc.store.migrate import alone
from memsvc.store.revisions import Revisions


@dataclass(frozen=True, slots=True)
class Step:
    """Statements of one transaction; none for something that was done before.

    `told` describes it.
    """

    told: str
    statements: tuple[str, ...] = ()


async def distribute(
    admin_url: str,
    app_role: str,
    *,
    shards: int | None = None,
    dry_run: bool = False,
    tell: Callable[[Step], None],
    lock_timeout_s: float = 60.0,
) -> None:
    """Distribute every tenant table by its tenant, colocated, and set up the application's role.

    Reports each step before it takes it; with `dry_run` it takes none. `shards` is the number of
    parts of each table; the cluster's own number if it is not given, and the present one where
    tables are distributed already.

    A step is a transaction: interrupted, it resumes where it stopped. UNAVAILABLE where Citus is
    missing or too old, the schema is not at the revision that this version brings, or the database
    cannot be reached; CONFLICT where something cannot be distributed, or the application is
    connected; PERMISSION_DENIED where the owner may not set up the role.
    """
    async with alone(admin_url, lock_timeout_s) as connection:
        async with connection.begin():
            await connection.run_sync(_refuse, app_role, at_work=not dry_run)
            steps = await connection.run_sync(lambda c: [*_roles(c, app_role), *_tables(c, shards)])
        for step in steps:
            tell(step)
            if not dry_run and step.statements:
                async with connection.begin():
                    await connection.run_sync(_take, step)
        async with connection.begin():
            left = await connection.run_sync(lambda c: list(_left_behind(c, steps if dry_run else [])))
        for step in left:
            tell(step)
            if not dry_run:
                async with connection.begin():
                    await connection.run_sync(_take, step)


def _refuse(connection: Connection, app_role: str, *, at_work: bool) -> None:
    """Raise if something prevents the schema from being distributed."""
    version = citus.version(connection)
    if version is None:
        raise MemsvcError(
            Code.UNAVAILABLE,
            "this database has no Citus",
            recovery="load it (shared_preload_libraries) on every node, and as a superuser CREATE EXTENSION citus and"
            " SELECT citus_add_node(...) for each node; docs/operations.md says in which order",
        )
    if version < citus.VERSION_MIN:
        newest = ".".join(map(str, citus.VERSION_MIN))
        raise MemsvcError(Code.UNAVAILABLE, f"Citus has to be {newest} or newer", recovery="update the extension")
    if not citus.is_coordinator(connection):
        raise MemsvcError(
            Code.CONFLICT,
            "this is a node of the cluster that is not its coordinator",
            recovery="let database.admin_url and database.url name the coordinator",
        )
    revision = connection.scalar(text("SELECT to_regclass('alembic_version')")) and connection.scalar(
        text("SELECT version_num FROM alembic_version")
    )
    if revision != Revisions.shipped().head or citus.settings_of_role(connection, app_role) is None:
        raise MemsvcError(
            Code.UNAVAILABLE,
            "the database is not as this version of memsvc migrates it, or has no role for the application",
            recovery="run `memsvc migrate` before",
        )
    there = citus.present(connection)
    faults = citus.unfit(connection, there & {*citus.DISTRIBUTED})
    faults += [f"{name} is unknown to this version of memsvc" for name in sorted(_strange(connection, there))]
    if faults:
        raise MemsvcError(Code.CONFLICT, "the schema cannot be distributed: " + "; ".join(faults))
    working = connection.scalar(
        text("SELECT count(*) FROM pg_stat_activity WHERE usename = :role AND datname = current_database()"),
        {"role": app_role},
    )
    if at_work and working and not {*citus.DISTRIBUTED} & there <= citus.placed(connection).keys():
        raise MemsvcError(
            Code.CONFLICT,
            f"{working} connections of {app_role} are open: half of the tables would be elsewhere for them",
            recovery="stop servers, workers and poolers, and start them when all is distributed",
        )


def _strange(connection: Connection, there: frozenset[str]) -> frozenset[str]:
    """Return the tables under row level security that this version does not know."""
    walled = connection.scalars(
        text("SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relforcerowsecurity")
    )
    return (frozenset(walled) & there) - {*citus.DISTRIBUTED, *citus.LOCAL}


def _roles(connection: Connection, app_role: str) -> Iterator[Step]:
    has = citus.settings_of_role(connection, app_role) or {}
    name = connection.dialect.identifier_preparer.quote(app_role)
    wanted = [(setting, value) for setting, value in citus.ROLE_SETTINGS if has.get(setting) != value]
    if wanted:
        yield Step(
            f"the role {app_role}",
            tuple(f"ALTER ROLE {name} SET {setting} = '{value}'" for setting, value in wanted),
        )
    else:
        yield Step(f"the role {app_role} is set up already")


def _tables(connection: Connection, shards: int | None) -> Iterator[Step]:
    there, known = citus.present(connection), citus.placed(connection)
    for table in citus.DISTRIBUTED:
        if table in known:
            yield Step(f"{table} is distributed already")
            continue
        if table not in there:
            continue
        beside = f"colocate_with => '{citus.ANCHOR}'"
        if table == citus.ANCHOR:
            beside = "colocate_with => 'none'" + (f", shard_count => {shards}" if shards else "")
        yield Step(
            table,
            (
                # the policy binds the owner too, and COPY, by which rows go to the nodes, does not
                # work under one
                f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY",
                f"SELECT create_distributed_table('{table}', 'tenant', {beside})",
                f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
            ),
        )
    for table in citus.LOCAL:
        if table in there:
            yield Step(f"{table} stays on the coordinator: it {citus.LOCAL[table]}")


def _left_behind(connection: Connection, steps: list[Step]) -> Iterator[Step]:
    """Yield the steps that remove the coordinator's copies of rows that are on the nodes.

    No statement sees them, and no purge removes them. `steps` are those that would have been taken
    before.
    """
    would_be = {step.told for step in steps if step.statements}
    gone_out = citus.placed(connection).keys() | (would_be & {*citus.DISTRIBUTED})
    left = gone_out & citus.held_here(connection)
    for table in citus.DISTRIBUTED:
        if table in left:
            statement = f"SELECT truncate_local_data_after_distributing_table('{table}')"
            yield Step(f"{table}, as it was on the coordinator", (statement,))


def _take(connection: Connection, step: Step) -> None:
    for statement in step.statements:
        try:
            connection.exec_driver_sql(statement)
        except DBAPIError as error:
            state = getattr(error.orig, "sqlstate", None)
            code = Code.PERMISSION_DENIED if state == "42501" else Code.CONFLICT
            # what Citus says of a statement names tables and columns, and no row
            told = f"{type(error.orig).__name__}: {error.orig}".splitlines()[0]
            raise MemsvcError(
                code,
                f"{step.told}: {statement}: {told}",
                recovery="steps before it stay as they are; put right what is said, or run the statement as a"
                " superuser, and start the command again",
            ) from error
