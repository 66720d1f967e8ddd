"""`refresh_words`: the words that the namespace holds, counted anew."""

from __future__ import annotations

from .._context import Context
from ..recall_records import KnownWords


async def refresh_words(context: Context) -> KnownWords:
    """Count them in one statement, and say whether they can be compared."""
    from .._sql.known_words import refresh_known_words

    (row,) = await context.fetch(refresh_known_words, {"namespace": context.namespace})
    comparable = (await context.database.opened()).tables.trigram_schema is not None
    return KnownWords(row["words"], row["added"], row["gone"], comparable)
