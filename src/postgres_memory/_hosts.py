"""The hosts of a DSN, tried one after another.

The driver does that too, but with one time limit for all of them: a host that is gone without a word, as after a power
failure, would use it up before the next one is asked, which may have taken over.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import asyncpg

Place = tuple[str, int]

#: After these another host may be the right one: it is not there, not ready, or not what is looked for.
_NOT_HERE = (
    OSError,
    asyncpg.CannotConnectNowError,
    asyncpg.PostgresConnectionError,
    asyncpg.TargetServerAttributeNotMatched,
)
_SPELT = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::([0-9]+))?")
_PREFERRED = "prefer-standby"


@dataclass(slots=True, eq=False, repr=False)
class Hosts:
    """The hosts of ``dsn``, in the order in which they are tried: those that did not answer come last from then on."""

    dsn: str
    places: list[Place] = field(init=False)

    def __post_init__(self) -> None:
        self.places = places_of(self.dsn)

    async def connect(self, *, timeout: float, **options: Any) -> asyncpg.Connection[asyncpg.Record]:
        """Return a connection to the first host that is what the DSN looks for, made within ``timeout`` seconds."""
        if len(self.places) < 2:
            return await asyncpg.connect(self.dsn, timeout=timeout, **options)
        share = timeout / len(self.places)
        failed: BaseException | None = None
        untried = list(self.places)
        for wanted in self._wanted():
            others: list[Place] = []
            for place in untried:
                host, port = place
                try:
                    return await asyncpg.connect(
                        self.dsn, host=host, port=port, timeout=share, **wanted, **options
                    )
                except _NOT_HERE as error:
                    failed = error
                    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
                        others.append(place)
                    elif isinstance(error, TimeoutError):
                        self._put_last(place)
            untried = others
        assert failed is not None
        raise failed

    def _wanted(self) -> list[dict[str, Any]]:
        """Return what a server must be, first and where there is no such one: nothing, for what the DSN says."""
        named = dict(parse_qsl(urlsplit(self.dsn).query)).get("target_session_attrs")
        if (named or os.environ.get("PGTARGETSESSIONATTRS")) != _PREFERRED:
            return [{}]
        return [{"target_session_attrs": "standby"}, {"target_session_attrs": "any"}]

    def _put_last(self, place: Place) -> None:
        # Others may have done so while this one waited.
        self.places = [other for other in self.places if other != place] + [place]


def places_of(dsn: str) -> list[Place]:
    """Return the hosts and ports that ``dsn`` names; none where it leaves that to the driver."""
    parts = urlsplit(dsn)
    query = dict(parse_qsl(parts.query))
    named = parts.netloc.rpartition("@")[2]
    hosts = [unquote(host) for host in named.split(",")] if named else query.get("host", "").split(",")
    ports = [] if named else [port for port in query.get("port", "").split(",") if port]
    default = os.environ.get("PGPORT") or "5432"
    if not all(hosts) or (ports and len(ports) != len(hosts)):
        return []
    places = []
    for number, host in enumerate(hosts):
        spelt = _SPELT.fullmatch(host)
        address = host if host.startswith("/") or spelt is None else spelt[1] or spelt[2]
        own = None if spelt is None or host.startswith("/") else spelt[3]
        port = (ports[number] if ports else own) or default
        if not port.isdigit():
            return []
        places.append((address, int(port)))
    return places
