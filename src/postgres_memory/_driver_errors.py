"""The driver's errors in our words: the one edge at which they are translated, by SQLSTATE."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from .errors import (
    DatabaseError,
    DatabaseTimeoutError,
    DatabaseUnavailableError,
    NotMigratedError,
    PostgresMemoryError,
)

#: What asyncpg raises for reasons outside the caller's code. `InternalClientError` (a bare Exception) can follow a
#: lost connection; a TimeoutError is an OSError.
DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)

_UNAVAILABLE = {"57P01", "57P02", "57P03", "53300"}
_NO_SUCH_TABLE = {"42P01", "3F000"}


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's errors into ours, whatever the body awaits."""
    try:
        yield
    except DRIVER_ERRORS as error:
        if isinstance(error, PostgresMemoryError):
            raise  # DatabaseTimeoutError is an OSError too
        raise translate(error) from error


def translate(error: Exception) -> PostgresMemoryError:
    """Return the driver's ``error`` in our words: the server's message, without its DETAIL, which shows rows."""
    if isinstance(error, TimeoutError):
        return DatabaseTimeoutError("no answer came in time; if this was a write, its outcome is unknown")
    if not isinstance(error, asyncpg.PostgresError):
        text = f"the connection failed: {type(error).__name__}: {error}"
        return DatabaseError(text) if isinstance(error, ValueError) else DatabaseUnavailableError(text)
    code = error.sqlstate or ""
    message = f"{error.args[0] if error.args else type(error).__name__} (SQLSTATE {code})"
    if code in _NO_SUCH_TABLE:
        return NotMigratedError(f"{message}; run: postgres-memory migrate", schema="")
    if code == "57014":
        return DatabaseTimeoutError(message, sqlstate=code)
    if code in _UNAVAILABLE or code.startswith("08"):
        return DatabaseUnavailableError(message, sqlstate=code)
    return DatabaseError(message, sqlstate=code)
