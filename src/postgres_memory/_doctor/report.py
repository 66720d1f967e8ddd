"""What a check is given, and how it says what it saw."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .._context import Context
from .._driver_errors import translated
from ..doctor_records import Finding, Severity

if TYPE_CHECKING:
    from asyncpg import Record

    from .._pooling import Connection
    from .._sql.schema import Tables


@dataclass(frozen=True, slots=True)
class Patient:
    """The database under examination, seen on one ``connection``.

    ``schema`` is None where not even its name is known to be ours; ``tables`` and ``principal_roles`` are there where
    the schema can be used. ``server`` is the row of `SERVER`.
    """

    context: Context
    connection: Connection
    schema: str | None
    tables: Tables | None
    server: Record

    async def rows(self, sql: str, *arguments: object) -> list[Record]:
        """Run a query on catalogs."""
        with translated():
            return await self.connection.fetch(sql, *arguments)

    async def row(self, sql: str, *arguments: object) -> Record:
        """Run a query on catalogs that has one row."""
        (row,) = await self.rows(sql, *arguments)
        return row

    @property
    def here(self) -> Context:
        """The context of the trusted backend on this connection."""
        return replace(self.context, connection=self.connection, scope=None, toucher=None, from_replica=False)

    @property
    def known_tables(self) -> Tables:
        """The tables, for a check that runs only where there are some."""
        assert self.tables is not None
        return self.tables


class Report:
    """Collects the findings of one check."""

    def __init__(self, check: str) -> None:
        self.check = check
        self.findings: list[Finding] = []

    def ok(self, seen: str, **data: Any) -> None:
        """Nothing is wrong."""
        self._add("ok", seen, None, data)

    def notice(self, seen: str, fix: str, **data: Any) -> None:
        """Something may be meant so."""
        self._add("notice", seen, fix, data)

    def warning(self, seen: str, fix: str, *, repairable: bool = False, **data: Any) -> None:
        """Something makes calls slow, or can lose something."""
        self._add("warning", seen, fix, data, repairable=repairable)

    def problem(self, seen: str, fix: str, *, repairable: bool = False, **data: Any) -> None:
        """Something fails, or gives wrong answers."""
        self._add("problem", seen, fix, data, repairable=repairable)

    def unchecked(self, why: str, fix: str | None, **data: Any) -> None:
        """The check could not see what it needs."""
        self._add("notice", f"could not be checked: {why}", fix, data, checked=False)

    def _add(
        self, severity: Severity, seen: str, fix: str | None, data: dict[str, Any], **more: bool
    ) -> None:
        self.findings.append(Finding(self.check, severity, seen, fix, data, **more))


CheckFunction = Callable[[Patient, Report], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Check:
    """A check by name; ``needs_tables`` where it means nothing before the schema is migrated."""

    name: str
    run: CheckFunction
    needs_tables: bool = True


def mebibytes(count: float) -> str:
    """Return a size for people to read."""
    return f"{count / 1024**3:.1f} GiB" if count >= 1024**3 else f"{count / 1024**2:.1f} MiB"
