"""What may stop a migration, said so that whoever runs it knows what to do."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import asyncpg

from ._driver_errors import DRIVER_ERRORS, translate
from .errors import DatabaseUnavailableError, MigrationError, PostgresMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_RIGHT = "42501"


@contextmanager
def explained(schema: str) -> Iterator[None]:
    """Turn what migrating may raise from Alembic, SQLAlchemy or the driver into a MigrationError or our own kind."""
    from alembic.util import CommandError
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except PostgresMemoryError:
        raise
    except CommandError as error:
        raise MigrationError(f"schema {schema!r} cannot be migrated: {error}", schema=schema) from error
    except DBAPIError as error:
        cause = None if error.orig is None else error.orig.__cause__
        raise _explanation(cause or error, schema) from error
    except DRIVER_ERRORS as error:
        raise translate(error) from error


def _explanation(cause: BaseException, schema: str) -> PostgresMemoryError:
    """Return the error for what stopped a revision. The server's DETAIL, which shows rows, is left out."""
    if not isinstance(cause, asyncpg.PostgresError):
        if isinstance(cause, DRIVER_ERRORS):
            return translate(cause)
        return MigrationError(f"migrating schema {schema!r} failed: {type(cause).__name__}", schema=schema)
    ours = translate(cause)
    if isinstance(ours, DatabaseUnavailableError):
        return ours
    advice = "; migrate as the role that owns the schema" if cause.sqlstate == _NO_RIGHT else ""
    return MigrationError(
        f"migrating schema {schema!r} failed: {cause.args[0]} (SQLSTATE {cause.sqlstate}){advice}",
        schema=schema,
    )
