"""`delete_many`: all memories that match a filter, in one statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._context import Context
from .._tokens import Written
from ..errors import InvalidValueError
from ..filters import Filter, check_filter, constant_truth


async def delete_many(
    context: Context, filter: Filter | Mapping[str, Any] | None, *, everything: bool
) -> int:
    """Refuse what would match every memory unless that is said, then delete and count."""
    from .._sql.listing import delete_matching
    from .._sql.predicates import prepare_filter

    asked = check_filter(filter)
    if constant_truth(asked) is True and not everything:
        raise InvalidValueError(
            "filter", "matches every memory of the namespace; if that is meant, pass all=True"
        )
    prepared = prepare_filter(asked)
    parameters = prepared.parameters | {"namespace": context.namespace}
    rows = await context.once(delete_matching, parameters, prepared.shape)
    return rows.changed if isinstance(rows, Written) else int(rows[0][0])
