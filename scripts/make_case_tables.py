"""Write the case tables of Unicode 14, which the SQL form of the hash embedding is built from.

Run it once, with Python 3.11 and no other (its ``unicodedata`` is 14.0, the baseline): ``python3.11
scripts/make_case_tables.py``. The tables never change again: they decide the value of embeddings already stored. The
sets are read off ``str.lower`` itself, not off Unicode's data files, so they are what Python does.
"""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PACKAGE = Path(__file__).parent.parent / "src" / "postgres_memory"
SIGMA, FINAL_SIGMA = "Σ", "ς"
CODES = [code for code in range(1, sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF]

LOWERCASE = '''"""Case tables of Unicode 14.0, written by scripts/make_case_tables.py. Do not edit.

All numbers are code points in hexadecimal. ASCII is left out of ``LOWER``.
"""

from __future__ import annotations

# Letters with a lower-case form of one character: "letter>form", or "first-last/step>form of the first".
LOWER = """
{lower}
"""

# Characters that are skipped when the neighbours of a capital sigma are looked for.
CASE_IGNORABLE = """
{ignorable}
"""

# The neighbours that count as letters: cased, and not case-ignorable.
CASED = """
{cased}
"""
'''

UNASSIGNED = '''"""Code points that Unicode 14.0 leaves unassigned, by scripts/make_case_tables.py. Do not edit."""

from __future__ import annotations

# Ranges in hexadecimal.
UNASSIGNED = """
{unassigned}
"""
'''


def ranges(codes: Iterable[int]) -> Iterator[str]:
    """Yield ``codes`` (ascending) as "first-last" or "only"."""
    first = last = -2
    for code in [*codes, sys.maxunicode + 2]:
        if code != last + 1:
            if first >= 0:
                yield f"{first:X}" if first == last else f"{first:X}-{last:X}"
            first = code
        last = code


def runs(pairs: Iterable[tuple[int, int]]) -> Iterator[str]:
    """Yield (letter, form) pairs as runs of a constant step, 1 or 2, and a constant distance to the form."""
    run: list[int] = []
    distance = 0
    for letter, form in [*pairs, (sys.maxunicode + 9, 0)]:
        step = letter - run[-1] if run else 0
        if run and form - letter == distance and step in ({1, 2} if len(run) == 1 else {run[1] - run[0]}):
            run.append(letter)
            continue
        if run:
            span = f"-{run[-1]:X}/{run[1] - run[0]}" if len(run) > 1 else ""
            yield f"{run[0]:X}{span}>{run[0] + distance:X}"
        run, distance = [letter], form - letter


def ends_final(text: str) -> bool:
    """Say whether Python lower-cases the last character, a capital sigma, to its final form."""
    return text.lower().endswith(FINAL_SIGMA)


def tables() -> dict[str, str]:
    """Return each table as lines of text, by its name in the templates."""
    lowered = [(code, chr(code).lower()) for code in CODES if code > 127]
    lower = [(code, ord(form)) for code, form in lowered if len(form) == 1 and ord(form) != code]
    cased = [code for code in CODES if ends_final(f".{chr(code)}{SIGMA}")]
    skipped = [code for code in CODES if ends_final(f"x{chr(code)}{SIGMA}")]
    unassigned = [code for code in CODES if unicodedata.category(chr(code)) == "Cn"]
    entries = {
        "lower": runs(lower),
        "cased": ranges(cased),
        "ignorable": ranges(sorted(set(skipped) - set(cased))),
        "unassigned": ranges(unassigned),
    }
    return {
        name: "\n".join(wrap(" ".join(parts), 110, break_on_hyphens=False)) for name, parts in entries.items()
    }


def main() -> None:
    """Write both modules."""
    if unicodedata.unidata_version != "14.0.0":
        sys.exit(f"needs Unicode 14.0.0 (Python 3.11), this Python has {unicodedata.unidata_version}")
    texts = tables()
    (PACKAGE / "_sql" / "_lowercase.py").write_text(LOWERCASE.format(**texts), encoding="ascii")
    (PACKAGE / "embedding" / "_unassigned.py").write_text(UNASSIGNED.format(**texts), encoding="ascii")


if __name__ == "__main__":
    main()
