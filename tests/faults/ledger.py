"""What the callers were told of their writes, and whether it is so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from postgres_memory.errors import DatabaseError

#: A thing that can be counted in the database, such as ("content", "tea"), or a version, 0 for what is not there.
Key = tuple[str, str]

#: Verbs whose errors may come after what they wrote was committed: they write in batches, or read it back.
IN_PARTS = {"set_language", "purge_expired", "add, updating"}

_ANY: Any = object()

_ACTUAL = """
SELECT 'content' AS kind, content AS name, count(*) AS number FROM memory.memories GROUP BY content
UNION ALL SELECT 'version', id, version FROM memory.memories
UNION ALL SELECT 'relation', source_id || ' ' || relation_type || ' ' || target_id, count(*)
    FROM memory.memory_relations GROUP BY source_id, relation_type, target_id
UNION ALL SELECT 'message', message->>'content', count(*) FROM memory.session_messages GROUP BY message->>'content'
"""


@dataclass
class Ledger:
    """Every write, and what must be there after it."""

    acknowledged: int = 0
    #: Errors that say that nothing was written, and those that cannot say.
    refused: int = 0
    unknown: int = 0
    verbs: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    unknowns: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    #: Answers that are not what the verb did.
    wrong: list[str] = field(default_factory=list)
    expected: dict[Key, int] = field(default_factory=dict)
    _unsure: set[Key] = field(default_factory=set)

    async def write(
        self, verb: str, call: Awaitable[Any], after: Mapping[Key, int], answer: object = _ANY
    ) -> bool:
        """Make a write and say whether it was acknowledged. ``after`` is what is there then."""
        try:
            result = await call
        except DatabaseError as error:
            self.errors[f"{type(error).__name__} {error.sqlstate or ''}".rstrip()] += 1
            if error.nothing_written or verb in IN_PARTS:
                self.refused += 1
                self.refusals[verb] += 1
            else:
                self.unknown += 1
                self.unknowns[verb] += 1
            if error.nothing_written:
                for key in after:
                    self.expected.setdefault(key, 0)
            else:
                self._unsure.update(after)
            return False
        self.acknowledged += 1
        self.verbs[verb] += 1
        self.expected.update(after)
        if answer is not _ANY and result != answer:
            self.wrong.append(f"{verb}: {result!r} instead of {answer!r}")
        return True

    async def compared(self, connection: asyncpg.Connection[asyncpg.Record]) -> tuple[list[Key], list[Key]]:
        """Return what was lost and what is there too often, or though it was refused."""
        actual = {(row["kind"], row["name"]): row["number"] for row in await connection.fetch(_ACTUAL)}
        lost: list[Key] = []
        double: list[Key] = []
        for key, expected in self.expected.items():
            found = actual.get(key, 0)
            if key in self._unsure or found == expected:
                continue
            (lost if found < expected or (key[0] == "version" and not expected) else double).append(key)
        return lost, double
