"""Where the database is and what the package does within which limits."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

from ._validation import check_key
from .errors import ConfigurationError, InvalidTypeError, InvalidValueError

#: Environment variables that may name the database, in the order they are asked.
DSN_VARIABLES = ("POSTGRES_MEMORY_DSN", "DATABASE_URL")

#: The environment variable that names the same database for what a pooler is in the way of.
MIGRATION_DSN_VARIABLE = "POSTGRES_MEMORY_MIGRATION_DSN"

_SCHEMES = {
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "postgresql+asyncpg": "postgresql",
}


# Hosts with ports, and a database.
_HOST = r"(\[[^\]/@]*\]|[^\[\]:/@,]*)(:[0-9]*)?"
_PLACE = re.compile(rf"{_HOST}(,{_HOST})*(/[^:/@]*)?")


@dataclass(frozen=True, slots=True, repr=False)
class Dsn:
    """A connection string that shows itself without its password."""

    value: str

    def __repr__(self) -> str:
        return f"Dsn({self.masked!r})"

    def __str__(self) -> str:
        return self.masked

    @property
    def masked(self) -> str:
        """Return scheme, user, hosts and database: no password, and no query, which may hold one as well.

        Read from the last ``@``, so that a password with an unescaped ``@``, ``/`` or ``:`` does not show either. Where
        it cannot be told what belongs to a password, nothing shows.
        """
        head, _, query = self.value.partition("://")[2].partition("?")
        before, at, place = head.rpartition("@")
        if "@" in query or not _PLACE.fullmatch(place):
            return "postgresql://***"
        user, colon, _ = before.partition(":")
        return f"postgresql://{user}{':***' if colon else ''}{at}{place}"

    @property
    def server(self) -> tuple[str, int] | None:
        """Return host and port, where one host is named, and in the usual place."""
        head, _, query = self.value.partition("://")[2].partition("?")
        place = re.fullmatch(_HOST, head.partition("/")[0].rpartition("@")[2])
        if place is None or not place[1] or {"host", "port"} & dict(parse_qsl(query)).keys():
            return None
        return place[1].strip("[]"), int((place[2] or ":5432")[1:] or 5432)


def parse_dsn(dsn: str, argument: str = "dsn") -> Dsn:
    """Return ``dsn`` in the spelling asyncpg reads; ``postgresql+asyncpg://`` and ``postgres://`` are accepted.

    Raises ConfigurationError for anything that is no PostgreSQL URL. Its text is not repeated in the message, since
    it may hold a password.
    """
    if not isinstance(dsn, str):
        raise InvalidTypeError(argument, f"must be a str, not {type(dsn).__name__}")
    scheme, separator, rest = dsn.partition("://")
    if not separator or scheme not in _SCHEMES:
        raise ConfigurationError(
            f"{argument}: must be a URL that begins with postgresql:// (postgres:// and postgresql+asyncpg:// "
            "are accepted too)"
        )
    if not _is_readable(rest):
        raise ConfigurationError(
            f"{argument}: must be postgresql://user:password@host:port/database?name=value, where special characters "
            "in user, password and database are percent-encoded (# is %23, / is %2F, ? is %3F, @ is %40)"
        )
    return Dsn(f"{_SCHEMES[scheme]}://{rest}")


def _is_readable(rest: str) -> bool:
    """Say whether the driver reads what follows the scheme as it was meant.

    It takes a password with an unescaped ``/`` or ``@`` for a host, a port or a database, and its errors and asyncio's
    log then repeat parts of it.
    """
    head, _, query = rest.partition("?")
    authority, _, path = head.partition("/")
    hosts = authority.rpartition("@")[2]
    if "#" in rest or "@" in path or authority.count("@") > 1 or not _PLACE.fullmatch(hosts):
        return False
    try:
        parse_qsl(query, strict_parsing=True)
    except ValueError:
        return not query
    return all(int(port) <= 65535 for port in re.findall(r":([0-9]+)(?:,|$)", hosts))


def dsn_from_environment() -> Dsn | None:
    """Return the DSN the environment names, or None."""
    for variable in DSN_VARIABLES:
        value = os.environ.get(variable)
        if value:
            return parse_dsn(value, variable)
    return None


def migration_dsn_from_environment() -> Dsn | None:
    """Return the DSN for migrations that the environment names, or None."""
    value = os.environ.get(MIGRATION_DSN_VARIABLE)
    return parse_dsn(value, MIGRATION_DSN_VARIABLE) if value else None


def check_schema(value: object, argument: str = "schema") -> str:
    """Return a schema name that PostgreSQL takes as it is: longer ones it would cut without an error."""
    name = check_key(value, argument)
    if len(name.encode()) > 63:
        raise InvalidValueError(argument, f"must be at most 63 bytes of UTF-8, not {len(name.encode())}")
    if name.startswith("pg_"):
        raise InvalidValueError(argument, "must not begin with pg_, which PostgreSQL keeps for itself")
    return name
