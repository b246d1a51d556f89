"""Distribution of the tables of a migrated schema over a Citus cluster; it can be resumed."""

from collections.abc import Callable, Iterator

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from memsvc.core.errors import Code, MemsvcError, conflict, unavailable
from memsvc.core.frozen import frozen
from memsvc.store import policies
from memsvc.store.migrate import migration_lock
from memsvc.store.node_plans import CREATE_FUNCTION, FUNCTION_BODY, RUN_ON_NODE
from memsvc.store.revisions import Revisions


@frozen
class ShardStep:
    """Statements of one transaction; none for something that was done before.

    `told` describes it.
    """

    description: str
    statements: tuple[str, ...] = ()


async def shard_all_tables(
    admin_url: str,
    app_role: str,
    *,
    shards: int | None = None,
    dry_run: bool = False,
    report: Callable[[ShardStep], None],
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
    async with migration_lock(admin_url, lock_timeout_s) as connection:
        async with connection.begin():
            await connection.run_sync(_check_schema, app_role, at_work=not dry_run)
            steps = await connection.run_sync(
                lambda c: [*_roles(c, app_role), *_tables(c, shards), _function(c, app_role)]
            )
        for step in steps:
            report(step)
            if not dry_run and step.statements:
                async with connection.begin():
                    await connection.run_sync(_run, step)
        async with connection.begin():
            left = await connection.run_sync(
                lambda c: list(_local_copies(c, steps if dry_run else []))
            )
        for step in left:
            report(step)
            if not dry_run:
                async with connection.begin():
                    await connection.run_sync(_run, step)


def _check_schema(connection: Connection, app_role: str, *, at_work: bool) -> None:
    """Raise if something prevents the schema from being distributed."""
    version = policies.version(connection)
    if version is None:
        raise unavailable(
            "the Citus extension is not installed in this database",
            recovery="load it (shared_preload_libraries) on every node, and as a superuser CREATE"
            " EXTENSION citus and SELECT citus_add_node(...) for each node;"
            " docs/database.md says in which order",
        )
    if version < policies.VERSION_MIN:
        minimum = ".".join(map(str, policies.VERSION_MIN))
        raise unavailable(
            f"Citus must be version {minimum} or newer", recovery="update the Citus extension"
        )
    if not policies.is_primary_node(connection):
        raise conflict(
            "the database is on a worker node of the Citus cluster, not on its coordinator",
            recovery="set database.admin_url and database.url to the coordinator",
        )
    revision = connection.scalar(
        text("SELECT to_regclass('alembic_version')")
    ) and connection.scalar(text("SELECT version_num FROM alembic_version"))
    if (
        revision != Revisions.read_package().head
        or policies.settings_of_role(connection, app_role) is None
    ):
        raise unavailable(
            "the schema of the database is not up to date, or the application role does not exist",
            recovery="run `memsvc migrate` first",
        )
    tables = policies.present(connection)
    errors = policies.shard_errors(connection, tables & {*policies.SHARD_TABLES})
    errors += [
        f"{name} is unknown to this version of memsvc"
        for name in sorted(_unknown_tables(connection, tables))
    ]
    if errors:
        raise conflict(
            "the tables of this database cannot be distributed over the Citus nodes: "
            + "; ".join(errors)
        )
    open_connections = connection.scalar(
        text(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = :role AND datname ="
            " current_database()"
        ),
        {"role": app_role},
    )
    if (
        at_work
        and open_connections
        and not {*policies.SHARD_TABLES} & tables <= policies.shard_tables(connection).keys()
    ):
        raise conflict(
            f"the role {app_role} has {open_connections} open connections; after the"
            " tables are distributed over the Citus nodes, these connections would see only part"
            " of the tables",
            recovery="stop servers, workers and poolers, and restart them after the tables are"
            " distributed",
        )


def _unknown_tables(connection: Connection, tables: frozenset[str]) -> frozenset[str]:
    """Return the tables under row level security that this version does not know."""
    with_policy = connection.scalars(
        text(
            "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND"
            " relforcerowsecurity"
        )
    )
    return (frozenset(with_policy) & tables) - {*policies.SHARD_TABLES, *policies.LOCAL}


def _roles(connection: Connection, app_role: str) -> Iterator[ShardStep]:
    has = policies.settings_of_role(connection, app_role) or {}
    name = connection.dialect.identifier_preparer.quote(app_role)
    missing = [
        (setting, value) for setting, value in policies.ROLE_SETTINGS if has.get(setting) != value
    ]
    if missing:
        yield ShardStep(
            f"the role {app_role}",
            tuple(f"ALTER ROLE {name} SET {setting} = '{value}'" for setting, value in missing),
        )
    else:
        yield ShardStep(f"the role {app_role} is already set up")


def _tables(connection: Connection, shards: int | None) -> Iterator[ShardStep]:
    existing, sharded = policies.present(connection), policies.shard_tables(connection)
    for table in policies.SHARD_TABLES:
        if table in sharded:
            yield ShardStep(f"{table} is already distributed")
            continue
        if table not in existing:
            continue
        options = f"colocate_with => '{policies.ANCHOR}'"
        if table == policies.ANCHOR:
            options = "colocate_with => 'none'" + (f", shard_count => {shards}" if shards else "")
        yield ShardStep(
            table,
            (
                # the policy binds the owner too, and COPY, by which rows go to the nodes, does not
                # work under one
                f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY",
                f"SELECT create_distributed_table('{table}', 'tenant', {options})",
                f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
            ),
        )
    for table in policies.LOCAL:
        if table in existing:
            yield ShardStep(f"{table} stays on the coordinator: it {policies.LOCAL[table]}")


def _function(connection: Connection, app_role: str) -> ShardStep:
    row = connection.execute(
        text("""
            SELECT prosrc, has_function_privilege('public', oid, 'EXECUTE') AS is_open,
                has_function_privilege(CAST(:role AS name), oid, 'EXECUTE') AS is_granted
            FROM pg_proc WHERE oid = to_regprocedure(:name)
        """),
        {"role": app_role, "name": RUN_ON_NODE},
    ).one_or_none()
    if row == (FUNCTION_BODY, False, True):
        return ShardStep("reads already run on the nodes")
    role = connection.dialect.identifier_preparer.quote(app_role)
    call = f"create_distributed_function('{RUN_ON_NODE}', 'tenant', '{policies.ANCHOR}', true)"
    return ShardStep(
        "let reads run on the nodes",
        (
            CREATE_FUNCTION,
            f"REVOKE ALL ON FUNCTION {RUN_ON_NODE} FROM PUBLIC",
            f"GRANT EXECUTE ON FUNCTION {RUN_ON_NODE} TO {role}",
            f"SELECT {call}",
        ),
    )


def _local_copies(connection: Connection, steps: list[ShardStep]) -> Iterator[ShardStep]:
    """Yield the steps that remove the coordinator's copies of rows that are on the nodes.

    No statement sees them, and no purge removes them. `steps` are those that would have been taken
    before.
    """
    would_be = {step.description for step in steps if step.statements}
    gone_out = policies.shard_tables(connection).keys() | (would_be & {*policies.SHARD_TABLES})
    left = gone_out & policies.tables_with_rows(connection)
    for table in policies.SHARD_TABLES:
        if table in left:
            statement = f"SELECT truncate_local_data_after_distributing_table('{table}')"
            yield ShardStep(f"{table}: delete the copy on the coordinator", (statement,))


def _run(connection: Connection, step: ShardStep) -> None:
    for statement in step.statements:
        try:
            connection.exec_driver_sql(statement)
        except DBAPIError as error:
            state = getattr(error.orig, "sqlstate", None)
            code = Code.PERMISSION_DENIED if state == "42501" else Code.CONFLICT
            # what Citus says of a statement names tables and columns, and no row
            message = f"{type(error.orig).__name__}: {error.orig}".splitlines()[0]
            raise MemsvcError(
                code,
                f"{step.description}: the statement {statement} failed: {message}",
                recovery="the earlier steps took effect; correct the problem or run the failed"
                " statement as a superuser, then run the command again",
            ) from error
