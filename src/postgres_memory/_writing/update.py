"""`update`: change fields of one memory, if it is still the version the caller read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal

from .._context import Context
from .._json import decode_metadata, encode_metadata
from .._recall.reading import not_there, read_written
from .._record_checks import check_array, check_enum, check_fraction, check_optional_key, check_time
from .._tokens import Written
from .._validation import check_content, check_id, check_positive
from ..embedding.counting import counts_of
from ..embedding.hashing import normalize
from ..errors import (
    InvalidTypeError,
    InvalidValueError,
    NotPermittedError,
    VersionConflictError,
)
from ..records import MemoryPermissions, MemoryRecord, MemoryType
from .adding import owner_of_principals
from .deduping import ATTEMPTS, changing, make_way, unless_held
from .embedding import NO_VECTOR, embedded

if TYPE_CHECKING:
    from asyncpg import Record

_ACCESS = ("owner", "readers", "writers")

MetadataMode = Literal["merge", "replace"]


async def update(
    context: Context,
    id: str,
    changes: dict[str, Any],
    *,
    expected_version: int | None,
    metadata_mode: MetadataMode | None,
) -> MemoryRecord:
    """Check the changes, embed a new content, write all of it in one statement and return the record after it."""
    from .._sql.records import record_from_row

    check_id(id)
    if expected_version is not None:
        check_positive(expected_version, "expected_version")
    columns = _columns(context, changes, metadata_mode)
    if "owner" in columns and context.principal is not None:
        columns["owner"] = owner_of_principals(context, columns["owner"])
    counts = await counts_of(columns["content"]) if "content" in columns else None
    vectors = await _vectors(context, id, columns.get("content"), changes.get("metadata"), metadata_mode)
    parameters = (
        columns
        | vectors
        | {
            "namespace": context.namespace,
            "id": id,
            "expected_version": expected_version,
            "counts": counts,
        }
    )
    changed = tuple(sorted(columns))
    row: Record | Written
    if context.principal is not None and "owner" in columns:
        row = await context.retried(lambda inside: _permit(inside, parameters, changed, metadata_mode))
    else:
        row = await _change(context, parameters, changed, metadata_mode)
    if isinstance(row, Written):
        return await read_written(context, id)
    if row["found"] is None:
        raise await not_there(context, id)
    if row["version"] is None:
        assert expected_version is not None
        found = row["found"]
        raise VersionConflictError(namespace=context.namespace, id=id, expected=expected_version, found=found)
    record = record_from_row(row)
    if context.principal is not None and "owner" in columns:
        record = replace(record, permissions=MemoryPermissions(*(columns[name] for name in _ACCESS)))
    return record if counts is None else replace(record, embedding=tuple(normalize(counts)))


async def _vectors(
    context: Context, id: str, content: str | None, metadata: dict[str, Any] | None, metadata_mode: object
) -> dict[str, Any]:
    """Embed what changes: a content that is given, and what becomes of the metadata that are there now."""
    from .._sql.records import get_records

    if context.embedder is None:
        return NO_VECTOR
    if metadata is None or not context.fields.paths:
        return NO_VECTOR if content is None else await embedded(context, content)
    rows = await context.fetch(get_records, {"namespace": context.namespace, "ids": [id]})
    before = decode_metadata(rows[0]["metadata"]) if rows else {}
    after = before | metadata if metadata_mode == "merge" else metadata
    return await embedded(context, content, after, before)


async def _change(
    context: Context, parameters: dict[str, Any], changed: tuple[str, ...], metadata_mode: object
) -> Record | Written:
    if metadata_mode == "merge":
        return await context.retried(lambda inside: _merge(inside, parameters, changed))
    return await _write(context, parameters, changed)


async def _permit(
    inside: Context, parameters: dict[str, Any], changed: tuple[str, ...], metadata_mode: object
) -> Record:
    """Change permissions as well, which only the owner may, in a transaction that a refusal does not leave."""
    from .._sql.changing import change_access

    rest = tuple(name for name in changed if name not in _ACCESS)
    row = await _change(inside, parameters | {"owner": None}, rest, metadata_mode)
    assert not isinstance(row, Written)
    if row["version"] is not None:
        ((own,),) = await inside.fetch(change_access, parameters)
        if not own:
            problem = "is not its owner, who alone changes its permissions"
            raise NotPermittedError(inside.owner, parameters["id"], problem)
    return row


async def _merge(inside: Context, parameters: dict[str, Any], changed: tuple[str, ...]) -> Record:
    """Write in a transaction, which a metadata that is too large with what was there already does not leave."""
    row = await _write(inside, parameters, changed, merge_metadata=True)
    assert not isinstance(row, Written)
    if row["version"] is not None:
        try:
            encode_metadata(decode_metadata(row["metadata"]))
        except InvalidValueError as error:
            raise InvalidValueError("metadata", f"merged with what is there, {error.problem}") from error
    return row


async def _write(
    context: Context, parameters: dict[str, Any], changed: tuple[str, ...], *, merge_metadata: bool = False
) -> Record | Written:
    from .._sql.changing import KEYED, update_memory

    async def write(at: Context) -> Record | Written:
        fielded = parameters["fields"] is not None
        shape = (changed, merge_metadata, at.principal is not None, fielded)
        rows = await at.once(update_memory, parameters, *shape)
        return rows if isinstance(rows, Written) else rows[0]

    if not KEYED & set(changed):
        return await write(context)
    for _ in range(ATTEMPTS):
        row = await unless_held(context, write)
        if row is not None:
            return row
        owner, content = parameters.get("owner"), parameters.get("content")
        await make_way(context, parameters["id"], owner=owner, content=content)
    raise changing(context, parameters["id"])


def _columns(context: Context, changes: dict[str, Any], metadata_mode: object) -> dict[str, Any]:
    """Return the checked changes as columns and values."""
    if not changes:
        raise InvalidValueError("changes", "name at least one field to change")
    if ("metadata" in changes) != (metadata_mode is not None):
        raise InvalidValueError(
            "metadata_mode", "goes with metadata: 'merge' adds its keys, 'replace' sets it"
        )
    if metadata_mode not in (None, "merge", "replace"):
        raise InvalidValueError("metadata_mode", "must be 'merge' or 'replace'")
    columns: dict[str, Any] = {}
    for name, value in changes.items():
        if name == "permissions":
            if not isinstance(value, MemoryPermissions):
                raise InvalidTypeError("permissions", "must be a MemoryPermissions")
            columns |= asdict(value)
        else:
            columns[name] = _column(context, name, value)
    return columns


def _column(context: Context, name: str, value: object) -> object:
    if name == "content":
        return check_content(value, max_bytes=context.limits.content_bytes)
    if name == "metadata" and value is None:
        raise InvalidTypeError("metadata", "must be a dict, not None; {} replaces it by nothing")
    if name not in _CHECKS:
        raise TypeError(f"update() got an unexpected keyword argument {name!r}")
    return _CHECKS[name](value, name)


_CHECKS: dict[str, Callable[[object, str], object]] = {
    "memory_type": lambda value, name: check_enum(value, MemoryType, name).value,
    "importance": check_fraction,
    "confidence": check_fraction,
    "tags": check_array,
    "thread_id": check_optional_key,
    "session_id": check_optional_key,
    "expires_at": check_time,
    "metadata": encode_metadata,
}
