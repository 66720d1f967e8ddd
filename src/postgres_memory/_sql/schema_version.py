"""What the code of this version needs of a database. A test holds the revision against Alembic's head."""

from __future__ import annotations

import re

from ..errors import InvalidTypeError, InvalidValueError

REVISION = "0019"

#: The newest revision, whichever that is; before the first one; and the first one.
HEAD, BASE, FIRST = "head", "base", "0001"

#: pgvector before this lacks iterative index scans.
MINIMUM_VECTOR = (0, 8)
MINIMUM_SERVER = 150000


def check_revision(revision: object, argument: str = "revision", *, other: str = HEAD) -> str:
    """Return what names a revision that there is, or ``other``."""
    if not isinstance(revision, str):
        raise InvalidTypeError(argument, f"must be a str, not {type(revision).__name__}")
    if revision != other and not (re.fullmatch("[0-9]{4}", revision) and FIRST <= revision <= REVISION):
        raise InvalidValueError(argument, f"must be {other!r} or one of {FIRST!r} to {REVISION!r}")
    return revision
