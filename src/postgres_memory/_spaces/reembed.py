"""`reembed`: fill the space of another embedder while the active one goes on being read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._context import Context
from .._validation import check_positive, kind_of
from ..embedding.accepting import check_space
from ..embedding.spaces import SpaceEmbedder
from ..errors import InvalidTypeError, InvalidValueError
from ..space_records import EmbedResult
from .filling import Filling, Progress, refuse_transaction
from .registering import learn_dimensions, register

if TYPE_CHECKING:
    from ..embedding.accepting import AnyEmbedder
    from ..embedding.protocol import Distance

#: Memories a second; slower is not at all, and faster is no limit.
_LEAST_RATE, _MOST_RATE = 0.001, 1_000_000


async def reembed(
    context: Context,
    space: str,
    *,
    embedder: AnyEmbedder | None,
    distance: Distance,
    batch_size: int,
    rate: float | None,
    progress: Progress | None,
) -> EmbedResult:
    """Create the space, or go on with it."""
    check_positive(batch_size, "batch_size")
    per_second = _check_rate(rate)
    refuse_transaction(context, "reembed")
    name = check_space(space)
    if embedder is not None:
        chosen = SpaceEmbedder(embedder, space=name, distance=distance)
    elif context.embedder is not None and context.embedder.space == name:
        chosen = context.embedder
    else:
        raise InvalidValueError("embedder", "must be given: this object has none for that space")
    await learn_dimensions(chosen)
    await register(context, chosen, filling=True, anew=True)
    return await Filling(context, chosen, batch_size, rate=per_second, progress=progress).run()


def _check_rate(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTypeError("rate", f"must be memories per second or None, not {kind_of(value)}")
    if not _LEAST_RATE <= value <= _MOST_RATE:
        raise InvalidValueError("rate", f"must be from {_LEAST_RATE} to {_MOST_RATE:,}")
    return float(value)
