"""What our library sends: statements and parameters, noted on their way to the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from postgres_memory._database import Database

if TYPE_CHECKING:
    from postgres_memory._sql.compile import Statement

#: A statement and its parameters by name.
Sent = tuple["Statement", dict[str, Any]]


@contextmanager
def recorded() -> Iterator[list[Sent]]:
    """Give the statements that any object of this process sends meanwhile."""
    sent: list[Sent] = []
    fetch = Database.fetch

    async def noted(
        self: Database[Any], statement: Statement, parameters: Mapping[str, Any], *rest: Any
    ) -> Any:
        sent.append((statement, dict(parameters)))
        return await fetch(self, statement, parameters, *rest)

    with patch.object(Database, "fetch", noted):
        yield sent
