"""Errors of the database and what they mean for a caller: busy, closed, unreachable or internal."""

from typing import Final

from asyncpg import exceptions as pg

from memsvc.core.errors import Code, ExclusiveLockError, MemsvcError

LOCK_ERRORS: Final = (pg.LockNotAvailableError, pg.DeadlockDetectedError, pg.SerializationError)
CONNECTION_ERRORS: Final = (
    OSError,
    TimeoutError,
    pg.PostgresConnectionError,
    pg.CannotConnectNowError,
    pg.OperatorInterventionError,
    pg.InsufficientResourcesError,
    pg.ReadOnlySQLTransactionError,
    # what the driver makes of a connection that ends between two statements
    pg.InternalClientError,
)

LOST: Final = (pg.InvalidSQLStatementNameError, pg.DuplicatePreparedStatementError)
"""Errors of prepared statements that a pooler in transaction mode does not know."""

DRIVER_ERRORS: Final = (
    OSError,
    TimeoutError,
    pg.PostgresError,
    pg.InterfaceError,
    pg.InternalClientError,
)


TIMEOUT_STATES: Final = {"25P03", "25P04"}
"""SQL states with which PostgreSQL ends a transaction that was idle, or open, for too long."""

NODE_LOST: Final = (
    "failure on connection marked as essential",
    "failed to COPY to shard",
    "server closed the connection unexpectedly",
)
"""Messages of Citus, as an error of its own, when a node fails during a transaction."""

CLOSED: Final = "MS001"
"""SQL state with which `admit_writer` refuses."""


def translate_error(error: BaseException) -> MemsvcError | None:
    """Return the error for the caller when the database is busy, unreachable or out of numbers.

    None for an internal error.
    """
    if isinstance(error, LOCK_ERRORS):
        kind = ExclusiveLockError if isinstance(error, pg.LockNotAvailableError) else MemsvcError
        return kind(Code.RESOURCE_BUSY, "somebody else is writing this just now", retry_after_s=0.1)
    if isinstance(error, pg.PostgresError) and error.sqlstate == CLOSED:
        return ExclusiveLockError(
            Code.RESOURCE_BUSY,
            "this is being purged just now",
            retry_after_s=2.0,
            recovery="wait until it is gone; if the purge was interrupted, ask for the same once"
            " more",
        )
    if isinstance(error, pg.QueryCanceledError):  # by the statement timeout, or by an administrator
        return MemsvcError(
            Code.RESOURCE_BUSY,
            "this took too long and was stopped",
            retry_after_s=1.0,
            recovery="try again, with less at once if it was much",
        )
    if isinstance(error, LOST):
        return statements_lost()
    if isinstance(error, pg.NumericValueOutOfRangeError):
        return MemsvcError(
            Code.QUOTA_EXCEEDED,
            "a number that is counted here cannot become any larger",
            recovery="go on in another session or project",
        )
    # a connection or pool that was closed is a bare InterfaceError; its subclasses are faults of
    # our arguments
    disconnected = isinstance(error, pg.PostgresError) and (
        error.sqlstate in TIMEOUT_STATES or str(error).startswith(NODE_LOST)
    )
    if disconnected or isinstance(error, CONNECTION_ERRORS) or type(error) is pg.InterfaceError:
        return MemsvcError(
            Code.UNAVAILABLE, "the database cannot be reached just now", retry_after_s=1.0
        )
    return None


def statements_lost() -> MemsvcError:
    """Return the error for statements prepared through a pooler that gives them to others."""
    return MemsvcError(
        Code.UNAVAILABLE,
        "the pooler before the database does not keep prepared statements",
        retry_after_s=1.0,
        recovery="set database.prepared_statements to auto or never, or let the pooler keep them"
        " (PgBouncer 1.21 and newer: max_prepared_statements), and start memsvc again",
    )
