"""`unrelate`: remove one relation."""

from __future__ import annotations

from .._context import Context
from .._recall.reading import refuse_unwritable
from .._record_checks import check_enum, check_label
from .._tokens import Written
from .._validation import check_id
from ..records import MemoryRelationType


async def unrelate(
    context: Context, source: str, target: str, type: MemoryRelationType | str, *, label: str
) -> bool:
    """Delete it, and say whether this call was the one that did."""
    from .._sql.relations import delete_relation

    parameters = {
        "namespace": context.namespace,
        "source_id": check_id(source, "source"),
        "relation_type": check_enum(type, MemoryRelationType, "type").value,
        "label": check_label(label, "label"),
        "target_id": check_id(target, "target"),
    }
    rows = await context.once(delete_relation, parameters)
    deleted = isinstance(rows, Written) or bool(rows)
    if not deleted:
        await refuse_unwritable(context, source)
    return deleted
