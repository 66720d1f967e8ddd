"""`count`: how many memories match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._context import Context
from ..filters import Filter, check_filter


async def count(
    context: Context, filter: Filter | Mapping[str, Any] | None, *, include_inactive: bool
) -> int:
    """Count what `find` would list on all of its pages."""
    from .._sql.listing import count_matching
    from .._sql.predicates import prepare_filter, visibility_of

    asked = check_filter(filter)
    prepared = prepare_filter(asked)
    visibility = visibility_of(asked, include_inactive=include_inactive)
    parameters = prepared.parameters | {"namespace": context.namespace}
    ((number,),) = await context.fetch(count_matching, parameters, visibility, prepared.shape)
    return int(number)
