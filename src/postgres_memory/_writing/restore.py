"""`restore`: a memory that was superseded or archived becomes active again."""

from __future__ import annotations

from .._context import Context
from .._recall.reading import not_there, read_record, read_written
from .._tokens import Written
from .._validation import check_id
from ..errors import ConflictError, NotPermittedError
from ..records import MemoryRecord, MemoryStatus
from .deduping import ATTEMPTS, make_way, unless_held


async def restore(context: Context, id: str) -> MemoryRecord:
    """Restore and return the record after, or raise what stands in the way.

    Versions may change while they are being locked; then one looks again.
    """
    from .._sql.lifecycle import restore_memory
    from .._sql.records import record_from_row

    check_id(id)
    namespace = context.namespace
    for _ in range(ATTEMPTS):
        rows = await unless_held(
            context, lambda at: at.once(restore_memory, {"namespace": namespace, "id": id})
        )
        if rows is None:
            await make_way(context, id)
            continue
        if isinstance(rows, Written):
            return await read_written(context, id)
        (row,) = rows
        if row["stale"]:
            await _refuse_unwritable(context, id)
            continue
        if row["found"] is None:
            raise await not_there(context, id)
        if row["found"] == MemoryStatus.ACTIVE:
            return await read_record(context, id)
        _refuse_second(namespace, id, row["overtaken"], row["rival"])
        return record_from_row(row)
    raise ConflictError("its versions keep changing", namespace=namespace, id=id)


async def _refuse_unwritable(context: Context, id: str) -> None:
    """Refuse a principal that may read all of the versions and not write all of them, so that they cannot be locked."""
    from .._sql.lifecycle import find_unwritable_version

    if context.principal is None:
        return
    parameters = {"namespace": context.namespace, "id": id}
    for row in await context.fetch(find_unwritable_version, parameters):
        other = "" if row["id"] == id else f", a version of {id!r},"
        raise NotPermittedError(context.principal.name, row["id"], f"may read it{other} and not write it")


def _refuse_second(namespace: str, id: str, overtaken: str | None, rival: str | None) -> None:
    if overtaken is not None:
        raise ConflictError(
            f"memory {overtaken!r}, which replaced {id!r}, was itself superseded; restore() that one first",
            namespace=namespace,
            id=overtaken,
        )
    if rival is not None:
        raise ConflictError(
            f"memory {rival!r}, another version of {id!r}, is active; archive() or supersede() it instead",
            namespace=namespace,
            id=rival,
        )
