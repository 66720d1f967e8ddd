"""`set_language`: the text search configuration of a namespace, for what comes and for what is there."""

from __future__ import annotations

from .._context import Context
from .._driver_errors import after_writing
from .._tokens import Written
from .._validation import check_key
from ..errors import DatabaseError, InvalidValueError

#: What PostgreSQL says of a name that is no text search configuration.
_NO_SUCH_LANGUAGE = {"42704", "42602", "42601", "3F000", "0A000"}
_BATCH = 2_000


async def set_language(context: Context, language: str) -> int:
    """Set it first, so that new memories have it, then change those there are, batch by batch."""
    from .._sql.languages import change_languages, check_language, choose_language

    if check_key(language, "language").strip().isdigit() or language.strip() == "-":
        # PostgreSQL takes this for the number of a configuration, which is another one in another database.
        raise InvalidValueError("language", "must be the name of a text search configuration")
    parameters = {"namespace": context.namespace, "language": language, "limit": _BATCH}
    try:
        await context.fetch(check_language, parameters)
    except DatabaseError as error:
        if error.sqlstate not in _NO_SUCH_LANGUAGE:
            raise
        text = f"{language!r} is no text search configuration of this database (SELECT cfgname FROM pg_ts_config)"
        raise InvalidValueError("language", text) from error
    await context.fetch(choose_language, parameters)
    changed = 0
    while True:
        with after_writing():
            rows = await context.once(change_languages, parameters)
        number: int = rows.changed if isinstance(rows, Written) else rows[0]["count"]
        changed += number
        if not number:
            return changed
