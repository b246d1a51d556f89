"""The one error that callers see: a code, a message, and whether a retry can help."""

from enum import StrEnum
from functools import partial
from typing import Any

from memsvc.core.scope import Permission


class Code(StrEnum):
    """Error codes of every surface; the value goes over the wire."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    INVALID_PATH = "INVALID_PATH"
    INVALID_OFFSET = "INVALID_OFFSET"
    INVALID_QUERY = "INVALID_QUERY"
    INVALID_CONTENT = "INVALID_CONTENT"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"
    IS_DIRECTORY = "IS_DIRECTORY"
    NOT_DIRECTORY = "NOT_DIRECTORY"
    NOT_EMPTY = "NOT_EMPTY"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED"
    RATE_LIMITED = "RATE_LIMITED"
    RESOURCE_BUSY = "RESOURCE_BUSY"
    SECRET_REFUSED = "SECRET_REFUSED"  # noqa: S105 - a code
    CONFLICT = "CONFLICT"
    VERSION_CONFLICT = "VERSION_CONFLICT"
    PRECONDITION_REQUIRED = "PRECONDITION_REQUIRED"
    NOT_ACCEPTED = "NOT_ACCEPTED"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL_ERROR = "INTERNAL_ERROR"


RETRYABLE = frozenset({Code.RATE_LIMITED, Code.RESOURCE_BUSY, Code.UNAVAILABLE})

HTTP_STATUS: dict[Code, int] = {
    Code.INVALID_ARGUMENT: 400,
    Code.INVALID_PATH: 400,
    Code.INVALID_OFFSET: 400,
    Code.INVALID_QUERY: 400,
    Code.INVALID_CONTENT: 400,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.IS_DIRECTORY: 400,
    Code.NOT_DIRECTORY: 400,
    Code.NOT_EMPTY: 409,
    Code.PERMISSION_DENIED: 403,
    Code.PAYLOAD_TOO_LARGE: 413,
    Code.QUOTA_EXCEEDED: 507,
    Code.RATE_LIMITED: 429,
    Code.RESOURCE_BUSY: 409,
    Code.SECRET_REFUSED: 422,
    Code.CONFLICT: 409,
    Code.VERSION_CONFLICT: 412,
    Code.PRECONDITION_REQUIRED: 428,
    Code.NOT_ACCEPTED: 403,
    Code.UNAVAILABLE: 503,
    Code.INTERNAL_ERROR: 500,
}


class MemsvcError(Exception):
    """A failure that the caller can read and, mostly, act on.

    `message` never holds content, keys or SQL. `recovery` describes the next step. `details` are
    further machine-readable members of the error body."""

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        recovery: str | None = None,
        retry_after_s: float | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.recovery = recovery
        self.retry_after_s = retry_after_s
        self.details = details or {}

    @property
    def retryable(self) -> bool:
        """Return whether the same call may succeed later; never for invalid input."""
        return self.code in RETRYABLE

    @property
    def http_status(self) -> int:
        """Return the HTTP status of this error on the REST surface."""
        return HTTP_STATUS[self.code]

    def body(self) -> dict[str, Any]:
        """Return the error as it goes over every wire.

        `{code, message, retryable, recovery?, retry_after_s?, ...}`"""
        body: dict[str, Any] = {
            "code": self.code.value,
            "message": self.message,
            "retryable": self.retryable,
        }
        if self.recovery is not None:
            body["recovery"] = self.recovery
        if self.retry_after_s is not None:
            body["retry_after_s"] = self.retry_after_s
        return body | self.details


class MissingPermissionError(MemsvcError):
    """The caller lacks a permission, whatever the target; a token with more scopes might do."""

    def __init__(self, permission: Permission) -> None:
        super().__init__(
            Code.PERMISSION_DENIED, f"this key lacks the {permission.value} permission"
        )
        self.permission = permission


class ExclusiveLockError(MemsvcError):
    """The target is locked exclusively, as for a purge or restore.

    Work on other targets need not wait."""


class ModelOutputError(MemsvcError):
    """A model answered in another form than requested and was told so.

    A retry may well fail again."""


class ModelRefusalError(MemsvcError):
    """A model's endpoint refuses the key, the model or the request: its settings are wrong.

    Work that nobody waits for waits as during an outage; the same call would fail again."""

    @property
    def retryable(self) -> bool:
        """Return False, whatever the code."""
        return False


class InDoubtError(MemsvcError):
    """Nobody knows whether it was done: a client that sent it again by itself might do it twice.

    Our own work, which is only repeated where that is harmless, is retried as after an outage."""

    def __init__(self, message: str) -> None:
        super().__init__(
            Code.UNAVAILABLE,
            message,
            recovery="the call may have succeeded: first check whether it did, and repeat the"
            " call only if it did not",
            details={"retryable": False},
        )


# Errors that are raised often, by their code.
invalid = partial(MemsvcError, Code.INVALID_ARGUMENT)  # however often it is sent
not_found = partial(MemsvcError, Code.NOT_FOUND)
unavailable = partial(MemsvcError, Code.UNAVAILABLE)
invalid_content = partial(MemsvcError, Code.INVALID_CONTENT)
permission_denied = partial(MemsvcError, Code.PERMISSION_DENIED)
conflict = partial(MemsvcError, Code.CONFLICT)
payload_too_large = partial(MemsvcError, Code.PAYLOAD_TOO_LARGE)
invalid_path = partial(MemsvcError, Code.INVALID_PATH)
resource_busy = partial(MemsvcError, Code.RESOURCE_BUSY)
quota_exceeded = partial(MemsvcError, Code.QUOTA_EXCEEDED)
invalid_offset = partial(MemsvcError, Code.INVALID_OFFSET)
already_exists = partial(MemsvcError, Code.ALREADY_EXISTS)
invalid_query = partial(MemsvcError, Code.INVALID_QUERY)


class SettingsError(Exception):
    """The settings are invalid: one line per problem, with the key's path and what is allowed."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors
