"""What the listing verbs return: a page, what is known of a namespace, and the health of a database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """Some of many, in order: ``items``, and the ``cursor`` of the next page, None on the last one."""

    items: tuple[ItemT, ...]
    cursor: str | None = None

    def __iter__(self) -> Iterator[ItemT]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """A namespace that holds memories, whatever their status.

    ``first_created_at`` and ``last_created_at`` are the earliest and latest time of creation among them,
    ``last_updated_at`` the latest change. ``memories`` is their number, None unless it was asked for.
    """

    name: str
    first_created_at: datetime
    last_created_at: datetime
    last_updated_at: datetime
    memories: int | None = None


@dataclass(frozen=True, slots=True)
class Isolation:
    """What `check_isolation` found out by trying.

    ``problems`` says in plain text what a principal could do and must not, or what keeps principals from working; there
    are none if ``ok``. ``warnings`` name what is not wrong by itself, such as a superuser as the trusted backend.
    ``attempts`` is how many things were tried; ``role`` the database role of principals; ``login`` who is logged in.
    """

    ok: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    attempts: int
    role: str
    login: str


@dataclass(frozen=True, slots=True)
class Health:
    """What `health` found out about a database that answers.

    ``problems`` says in plain text what stands in the way of working or working safely; there are none if ``ok``.
    ``server_version`` is PostgreSQL's, ``vector_version`` that of the extension (None where it is missing).
    ``schema_revision`` is the revision of the schema (None where there is none or it may not be read),
    ``needed_revision`` the one this code needs at least. ``role`` is who is logged in, ``owner`` who owns the tables;
    ``acts_as_owner`` says whether the role is the owner, a member that inherits its rights, or a superuser.
    ``standby`` says that the server takes no writes. The pool has ``pool_size`` connections of ``pool_max_size``, and
    ``pool_in_use`` of them were working; None where no pool is open. ``round_trip_seconds`` is how long the shortest
    statement took from here.
    """

    ok: bool
    problems: tuple[str, ...]
    server_version: str
    vector_version: str | None
    schema_revision: str | None
    needed_revision: str
    role: str
    owner: str | None
    acts_as_owner: bool
    standby: bool
    pool_size: int | None
    pool_in_use: int | None
    pool_max_size: int | None
    round_trip_seconds: float
