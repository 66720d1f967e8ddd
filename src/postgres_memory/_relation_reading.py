"""Which stored relations answer a question from one memory, and which way round each is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from ._record_checks import check_enum
from ._validation import kind_of
from .errors import InvalidTypeError, InvalidValueError
from .graph_records import INVERSES, Relation
from .records import MemoryRelationType

Direction = Literal["out", "in", "both"]


@dataclass(frozen=True, slots=True)
class Reading:
    """For a memory that is the source, or the target, of a stored relation: the types that count, and if reversed."""

    from_source: dict[str, bool]
    from_target: dict[str, bool]

    @property
    def parameters(self) -> dict[str, list[str]]:
        """The stored types to follow from source to target, and from target to source, as parameters."""
        return {"source_types": list(self.from_source), "target_types": list(self.from_target)}

    def read(self, stored: Relation, *, at_source: bool) -> Relation:
        """Return ``stored`` as it reads from its source, or from its target."""
        types = self.from_source if at_source else self.from_target
        return stored.inverse() if types[stored.relation_type.value] else stored


def reading_of(direction: Direction, types: Iterable[MemoryRelationType | str] | None) -> Reading:
    """Check what the caller asked for and return how to read. None means all types.

    Outgoing are relations whose source is the memory, as stored or read from the other end; incoming those whose
    target it is. What can be read both ways is outgoing, if that is among the types.
    """
    if direction not in get_args(Direction):
        raise InvalidValueError("direction", "must be 'out', 'in' or 'both'")
    wanted = _wanted(types)
    outgoing = wanted if direction != "in" else frozenset()
    incoming = wanted if direction != "out" else frozenset()
    from_source: dict[str, bool] = {}
    from_target: dict[str, bool] = {}
    for kind in MemoryRelationType:
        inverse = INVERSES.get(kind)
        if kind in outgoing or inverse in incoming:
            from_source[kind.value] = kind not in outgoing
        if inverse in outgoing or kind in incoming:
            from_target[kind.value] = inverse in outgoing
    return Reading(from_source, from_target)


def _wanted(types: Iterable[MemoryRelationType | str] | None) -> frozenset[MemoryRelationType | None]:
    if types is None:
        return frozenset(MemoryRelationType)
    if isinstance(types, str) or not isinstance(types, Iterable):
        raise InvalidTypeError("types", f"must be an iterable of relation types, not one {kind_of(types)}")
    return frozenset(
        check_enum(kind, MemoryRelationType, f"types[{position}]") for position, kind in enumerate(types)
    )
