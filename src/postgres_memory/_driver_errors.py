"""The driver's errors in our words: the one edge at which they are translated, by SQLSTATE."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import asyncpg

from .errors import (
    ConfigurationError,
    DatabaseError,
    DatabaseTimeoutError,
    DatabaseUnavailableError,
    NotMigratedError,
    PostgresMemoryError,
)

if TYPE_CHECKING:
    from .config import Dsn

#: What asyncpg raises for reasons outside the caller's code. `InternalClientError` (a bare Exception) can follow a
#: lost connection; a TimeoutError is an OSError.
DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)

_UNAVAILABLE = {"57P01", "57P02", "57P03", "53300"}
#: Said to who wants a session, before there is one.
_NOT_LET_IN = {"57P03", "53300"}
_NO_SUCH_TABLE = {"42P01", "3F000"}
#: A prepared statement that is not there, or is there already: a pooler gave it to another server connection.
_MIXED_UP = {"26000", "42P05"}


@contextmanager
def translated() -> Iterator[None]:
    """Turn the driver's errors into ours, whatever the body awaits."""
    try:
        yield
    except DRIVER_ERRORS as error:
        if isinstance(error, PostgresMemoryError):
            raise  # DatabaseTimeoutError is an OSError too
        raise translate(error) from error


@contextmanager
def harmless() -> Iterator[None]:
    """Have the errors of the body say that nothing was written, whatever became of it."""
    try:
        yield
    except DatabaseError as error:
        error.nothing_written = True
        raise


@contextmanager
def certified() -> Iterator[None]:
    """Translate what is wrong with a certificate: to Python that is a ValueError, as what is wrong with a DSN is."""
    try:
        yield
    except ssl.SSLError as error:
        raise translate(error) from error


def unreadable(dsn: Dsn) -> ConfigurationError:
    """Return the error for a DSN that the driver cannot read."""
    return ConfigurationError(
        f"the DSN {dsn} cannot be read; is every special character percent-encoded, and is each file there that it "
        "names, such as sslrootcert?"
    )


def translate(error: Exception) -> PostgresMemoryError:
    """Return the driver's ``error`` in our words: the server's message, without its DETAIL, which shows rows.

    It says whether something may have been written: where the server answers, the statement was rolled back, unless it
    was ending the session, which it may do while it waits to confirm a COMMIT.
    """
    if isinstance(error, TimeoutError):
        return DatabaseTimeoutError(
            "no answer came in time; if this was a write, its outcome is unknown", nothing_written=False
        )
    if not isinstance(error, asyncpg.PostgresError):
        return _of_the_connection(error)
    code = error.sqlstate or ""
    message = f"{error.args[0] if error.args else type(error).__name__} (SQLSTATE {code})"
    if code in _MIXED_UP:
        message += "; is there a pooler in between? A pool to borrow is then made with statement_cache_size=0"
    if code in _NO_SUCH_TABLE:
        return NotMigratedError(f"{message}; run: postgres-memory migrate", schema="")
    if code == "57014":
        return DatabaseTimeoutError(message, sqlstate=code)
    if code in _UNAVAILABLE or code.startswith("08"):
        return DatabaseUnavailableError(message, sqlstate=code, nothing_written=code in _NOT_LET_IN)
    return DatabaseError(message, sqlstate=code)


def _of_the_connection(error: Exception) -> DatabaseError:
    text = f"the connection failed: {type(error).__name__}: {error}"
    if isinstance(error, ValueError):
        return DatabaseError(text)
    return DatabaseUnavailableError(text, nothing_written=isinstance(error, ConnectionRefusedError))


@contextmanager
def after_writing(happened: bool = True) -> Iterator[None]:
    """Have the errors of the body say that something was written before, outside of it."""
    try:
        yield
    except DatabaseError as error:
        error.nothing_written = error.nothing_written and not happened
        raise
