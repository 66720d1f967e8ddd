"""Which thread a memory belongs to, where its metadata names it."""

from __future__ import annotations

from collections.abc import Mapping

from .._context import Context
from .._validation import check_key, kind_of
from ..errors import InvalidTypeError


def thread_of(context: Context, metadata: object) -> str | None:
    """Return the thread that the object's ``thread_field`` of the metadata names, None if there is no such key."""
    field = context.thread_field
    value = metadata.get(field) if field is not None and isinstance(metadata, Mapping) else None
    if value is None:
        return None
    argument = f"metadata[{field!r}]"
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidTypeError(
            argument, f"names the thread, so it must be a str or an int, not {kind_of(value)}"
        )
    return check_key(value if isinstance(value, str) else str(int(value)), argument)
