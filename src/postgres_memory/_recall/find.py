"""`find`: a page of records in an order, continued by a cursor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from .._context import Context
from .._cursor import Place, decode_cursor, digest_question, encode_cursor
from .._validation import check_positive
from ..errors import InvalidValueError
from ..filters import Filter, check_filter
from ..listing_records import Page
from .metadata_index import answers

if TYPE_CHECKING:
    from ..records import MemoryRecord

Order = Literal["created_at", "-created_at", "updated_at", "-updated_at", "importance", "-importance"]

_MAX_LIMIT = 2**62


async def find(
    context: Context,
    *,
    filter: Filter | Mapping[str, Any] | None,
    order_by: Order,
    limit: int,
    cursor: str | None,
    include_inactive: bool,
) -> Page[MemoryRecord]:
    """Check the question, read one record more than the page holds to see whether there is a next one."""
    from .._sql.listing import find_memories
    from .._sql.parameters import expected_of
    from .._sql.predicates import prepare_filter, visibility_of
    from .._sql.records import record_from_row

    asked = check_filter(filter)
    if order_by not in get_args(Order):
        raise InvalidValueError("order_by", f"must be one of {', '.join(map(repr, get_args(Order)))}")
    at_most = min(check_positive(limit, "limit"), _MAX_LIMIT)
    visibility = visibility_of(asked, include_inactive=include_inactive)
    prepared = prepare_filter(asked)
    question = digest_question(context.namespace, order_by, visibility, prepared.shape, prepared.parameters)
    column = order_by.removeprefix("-")
    parameters = prepared.parameters | {"namespace": context.namespace, "limit": at_most + 1}
    if cursor is not None:
        after = decode_cursor(cursor, question, of_times=column != "importance")
        parameters |= {"after_value": after.value, "after_seq": after.seq}
    by_metadata = await answers(context, prepared.shape)
    expected = expected_of(at_most + 1) if filter is None else None
    shape = (order_by, cursor is not None, visibility, prepared.shape, by_metadata, expected)
    rows = await context.fetch(find_memories, parameters, *shape)
    shown = rows[:at_most]
    following = None
    if len(rows) > at_most:
        following = encode_cursor(Place(shown[-1][column], shown[-1]["seq"]), question)
    return Page(tuple(record_from_row(row) for row in shown), following)
