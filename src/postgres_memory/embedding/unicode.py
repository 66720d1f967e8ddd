"""Which differences between two computations of the hash embedding come from their Unicode versions.

The SQL functions lower-case by Unicode 14.0 for ever, the version of Python 3.11. Later Pythons know more letters:

- Python 3.12 and 3.13 (Unicode 15.0, 15.1): no new capital; U+1DF25 to U+1DF2A are letters, and 105 characters are
  case-ignorable: both matter only next to a capital sigma.
- Python 3.14 (Unicode 16.0): 27 capitals got a lower-case form: U+1C89, U+A7CB, U+A7CC, U+A7DA, U+A7DC and U+10D50 to
  U+10D65 (Garay). Next to a capital sigma some more characters matter, all new but one: U+1171E, which existed
  before, is no longer case-ignorable.
"""

from __future__ import annotations

import re
from functools import cache

BASELINE = "14.0"
"""The Unicode version by which the SQL functions lower-case."""

_RECLASSIFIED = "\U0001171e"
_CAPITAL_SIGMA = "\u03a3"


def differs_by_unicode_version(text: str) -> bool:
    """Say whether Unicode versions after 14.0 may lower-case ``text`` in another way than 14.0 does.

    True if it holds a code point that 14.0 leaves unassigned, or a capital sigma together with U+1171E. Where this is
    False, Python 3.11 to 3.14 and the SQL functions give the same hash embedding.
    """
    if text.isascii():
        return False
    return bool(_unassigned().search(text)) or (_RECLASSIFIED in text and _CAPITAL_SIGMA in text)


@cache
def _unassigned() -> re.Pattern[str]:
    from ._unassigned import UNASSIGNED

    spans = (span.split("-") for span in UNASSIGNED.split())
    return re.compile(f"[{''.join('-'.join(chr(int(end, 16)) for end in span) for span in spans)}]")
