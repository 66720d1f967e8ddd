"""JSON that people hand to commands: read strictly, so that nothing is dropped or replaced without a word."""

from __future__ import annotations

import json
from typing import Any


class NotJsonError(ValueError):
    """A text is not JSON, or says something twice. The message never repeats the text."""


def parse_json(text: str) -> object:
    """Return the value that ``text`` writes. Raises NotJsonError."""
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise NotJsonError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise NotJsonError("nested too deeply") from None
    except NotJsonError:
        raise
    except ValueError:
        # The one that is left: Python reads no integer of more digits than this from text.
        raise NotJsonError("holds an integer of too many digits") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise NotJsonError("a key occurs twice in one object")
    return made


def _refuse_constant(name: str) -> object:
    raise NotJsonError(f"not JSON: {name}")
