"""What `doctor` and `stats` return: findings by severity, and the sizes and numbers of a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal, get_args

#: From what needs nothing to what needs somebody now.
Severity = Literal["ok", "notice", "warning", "problem"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw.

    ``severity`` is ``"ok"``; ``"notice"`` for what may be meant so; ``"warning"`` for what makes calls slow, or can
    lose something; ``"problem"`` for what fails, or gives wrong answers. ``seen`` says in plain text what there was,
    ``fix`` the command, SQL or Python call that puts it right (None where nothing is wrong). ``data`` holds the figures
    behind it, which JSON can hold. ``checked`` is False where the server did not let the check see what it needs, or
    not in time; ``seen`` then says why. ``repairable`` says that ``doctor(repair=True)`` runs ``fix``.
    """

    check: str
    severity: Severity
    seen: str
    fix: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    checked: bool = True
    repairable: bool = False


@dataclass(frozen=True, slots=True)
class Repair:
    """A ``statement`` that `doctor` ran to repair something; ``error`` is why it failed, None if it did not."""

    check: str
    statement: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What `doctor` found: at least one finding of each check, in the order of the checks.

    ``repairs`` are what ``doctor(repair=True)`` ran; the findings are those after it.
    """

    findings: tuple[Finding, ...]
    repairs: tuple[Repair, ...] = ()

    @property
    def severity(self) -> Severity:
        """The worst severity among the findings."""
        return max((finding.severity for finding in self.findings), key=SEVERITIES.index, default="ok")

    @property
    def ok(self) -> bool:
        """Whether there is neither a warning nor a problem, and no repair failed."""
        failed = any(repair.error is not None for repair in self.repairs)
        return SEVERITIES.index(self.severity) <= SEVERITIES.index("notice") and not failed

    def of(self, check: str) -> tuple[Finding, ...]:
        """Return the findings of one check."""
        return tuple(finding for finding in self.findings if finding.check == check)


@dataclass(frozen=True, slots=True)
class MemoryCount:
    """How many memories a namespace has of one type and status."""

    namespace: str
    memory_type: str
    status: str
    memories: int


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table, all namespaces: about how many ``rows``, of which ``dead_rows`` more wait for VACUUM; sizes in bytes.

    ``rows`` is None where it was never analysed. ``long_values_bytes`` are what PostgreSQL keeps apart (TOAST).
    """

    name: str
    rows: int | None
    dead_rows: int
    bytes: int
    long_values_bytes: int
    indexes_bytes: int


@dataclass(frozen=True, slots=True)
class IndexSize:
    """An index: its size, how often it was ``scans``-ned since statistics began, and whether it is ``valid``."""

    name: str
    table: str
    bytes: int
    scans: int
    valid: bool


@dataclass(frozen=True, slots=True)
class DayCount:
    """How many of the memories that there are were created on a ``day`` (UTC)."""

    day: date
    memories: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of a namespace, or of all (``namespace`` None): see `PostgresMemory.stats`.

    ``counts`` in the order of namespace, type and status; ``tables`` and ``indexes`` of the schema, largest first;
    ``growth`` one entry for each of the last days, the last one today.
    """

    namespace: str | None
    memories: int
    bytes: int
    counts: tuple[MemoryCount, ...]
    tables: tuple[TableSize, ...]
    indexes: tuple[IndexSize, ...]
    growth: tuple[DayCount, ...]
