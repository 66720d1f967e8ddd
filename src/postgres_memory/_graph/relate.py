"""`relate`: one relation, in one statement; both ends must be there."""

from __future__ import annotations

from typing import Any

from .._context import Context
from .._json import encode_metadata
from .._recall.reading import not_there
from .._record_checks import check_enum, check_fraction, check_label, check_mapping
from .._tokens import Written
from .._validation import check_id
from ..errors import DatabaseError, InvalidValueError, NotFoundError
from ..graph_records import Relation
from ..records import MemoryRelationType

_FOREIGN_KEY_VIOLATION = "23503"
_NO_RIGHT = "42501"
_NO_TARGET = "memory_relations_target_fkey"
_DETAIL = ", and a relation needs both its ends"


async def relate(
    context: Context,
    source: str,
    target: str,
    type: MemoryRelationType | str,
    *,
    label: str,
    confidence: float,
    metadata: dict[str, Any] | None,
) -> Relation:
    """Check, store, and return the relation as it is stored."""
    from .._sql.relations import store_relation

    relation = Relation(
        check_id(source, "source"),
        check_id(target, "target"),
        check_enum(type, MemoryRelationType, "type"),
        check_fraction(confidence, "confidence"),
        check_mapping({} if metadata is None else metadata, "metadata"),
        check_label(label, "label"),
    )
    if relation.source_id == relation.target_id:
        raise InvalidValueError("target", "must not be the source: no memory relates to itself")
    parameters = {
        "namespace": context.namespace,
        "source_id": relation.source_id,
        "relation_type": relation.relation_type.value,
        "label": relation.label,
        "target_id": relation.target_id,
        "confidence": relation.confidence,
        "metadata": encode_metadata(relation.metadata),
    }
    try:
        rows = await context.once(store_relation, parameters)
    except DatabaseError as error:
        if context.principal is not None and error.sqlstate == _NO_RIGHT:
            raise await not_there(context, relation.source_id, _DETAIL) from error
        if error.sqlstate != _FOREIGN_KEY_VIOLATION:
            raise
        # It was there when the statement began, and was deleted before the relation was stored.
        gone = relation.target_id if _NO_TARGET in str(error) else relation.source_id
        raise NotFoundError(context.namespace, (gone,), _DETAIL) from error
    if not isinstance(rows, Written) and rows[0]["missing"]:
        raise NotFoundError(context.namespace, tuple(rows[0]["missing"]), _DETAIL)
    return relation
