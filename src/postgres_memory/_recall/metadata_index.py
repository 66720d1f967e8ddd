"""Whether metadata has an index that answers a filter: looked up now and then, not for each call."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from .._context import Context

if TYPE_CHECKING:
    from .._database import Database
    from .._sql.compile import Catalog
    from .._sql.predicates import Shape

#: Seconds for which what was found is taken for true. Either way a call finds the same.
_REMEMBERED = 60.0

_known: WeakKeyDictionary[Database[Catalog], tuple[bool, float]] = WeakKeyDictionary()


async def answers(context: Context, shape: Shape) -> bool:
    """Say whether an index leads to what matches a filter's ``shape``."""
    from .._sql.metadata_index import find_metadata_index, is_answered

    # Under a policy no index is read for a condition on metadata.
    if context.principal is not None or not is_answered(shape):
        return False
    known = _known.get(context.database)
    if known is None or monotonic() > known[1]:
        rows = await context.fetch(find_metadata_index, {})
        known = _known[context.database] = bool(rows) and rows[0]["valid"], monotonic() + _REMEMBERED
    return known[0]
