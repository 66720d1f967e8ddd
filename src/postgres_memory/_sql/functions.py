"""The hash embedding as SQL functions: ``hash_counts(text)`` and ``hash_embedding(text)``.

They give what ``embedding/hashing.py`` gives, bit for bit, in every UTF-8 database, whatever its locale: ``lower`` of
the server is used for ASCII only, and everything else follows the tables of Unicode 14.0 in ``_lowercase.py``. That
version is part of the embedding's definition and stays (see ``embedding/unicode.py``).
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ._lowercase import CASE_IGNORABLE, CASED, LOWER
from .names import qualified

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2
_DOTTED_I = 0x130
_COMBINING_DOT = 0x307


def hash_counts_function(schema: str, extension_schema: str) -> str:
    """Return ``CREATE FUNCTION schema.hash_counts(content text) RETURNS vector``: the 32 shingle counts of a text.

    One statement, in ASCII, for UTF-8 databases. The text's length decides the time, linearly, whatever the text
    holds. ``extension_schema`` is where the ``vector`` extension lives.
    """
    # The body names no schema but pg_catalog, so it survives moving the extension; RETURN casts to the return type.
    # SET search_path costs 1 to 3 µs a call and keeps functions of the same names elsewhere out. A variable declared
    # COLLATE "C" keeps out the collation of the argument, which might be nondeterministic.
    return f"""\
CREATE FUNCTION {qualified(schema, "hash_counts")}(content text)
RETURNS {qualified(extension_schema, "vector")}
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function${_body()}$function$"""


def hash_embedding_function(schema: str, extension_schema: str) -> str:
    """Return ``CREATE FUNCTION schema.hash_embedding(content text) RETURNS vector``: the counts, normalised.

    One statement; ``hash_counts`` must exist. Needs pgvector 0.7 or newer for ``l2_normalize``.
    """
    return f"""\
CREATE FUNCTION {qualified(schema, "hash_embedding")}(content text)
RETURNS {qualified(extension_schema, "vector")}
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN {qualified(extension_schema, "l2_normalize")}({qualified(schema, "hash_counts")}(content))"""


def _escape(code: int) -> str:
    """Return the character as an escape of an E'' string."""
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _bracket(spans: Iterable[tuple[int, int]]) -> str:
    """Return a regular expression's bracket expression for ranges of characters."""
    ends = (dict.fromkeys(map(_escape, span)) for span in spans)
    return f"[{''.join(map('-'.join, ends))}]"


def _spans(table: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a table, each with its first and last code point."""
    for span in table.split():
        first, _, last = span.partition("-")
        yield int(first, 16), int(last or first, 16)


def _spans_of(codes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield ``codes`` as ranges."""
    for _, group in groupby(enumerate(sorted(codes)), lambda numbered: numbered[1] - numbered[0]):
        span = [code for _, code in group]
        yield span[0], span[-1]


def _pairs() -> dict[int, int]:
    """Return the lower-case form of every letter beyond ASCII that has one of a single character."""
    pairs: dict[int, int] = {}
    for run in LOWER.split():
        span, form = run.split(">")
        letters, _, step = span.partition("/")
        first, _, last = letters.partition("-")
        codes = range(int(first, 16), int(last or first, 16) + 1, int(step or 1))
        pairs |= {code: code - codes[0] + int(form, 16) for code in codes}
    return pairs


def _lowering() -> str:
    """Return the statements that lower-case all but ASCII, for texts that hold more than ASCII."""
    pairs = _pairs()
    capitals, forms = "".join(map(_escape, pairs)), "".join(map(_escape, pairs.values()))
    any_capital = _bracket(_spans_of({*pairs, _DOTTED_I}))
    cased, ignorable = _bracket(_spans(CASED)), _bracket(_spans(CASE_IGNORABLE))
    sigma, final_sigma = _escape(_SIGMA), _escape(_FINAL_SIGMA)
    dotted_i, plain_i = _escape(_DOTTED_I), f"i{_escape(_COMBINING_DOT)}"
    return f"""\
    -- A capital sigma at the end of a word: after a letter and before none, case-ignorable characters aside.
    IF strpos(lowered, E'{sigma}') > 0 THEN
      lowered := regexp_replace(lowered,
        E'({cased}{ignorable}*){sigma}(?!{ignorable}*{cased})',
        E'\\\\1{final_sigma}', 'g');
    END IF;
    -- Only the capitals that occur are translated: the time of translate grows with the number of letters named.
    IF lowered ~ E'{any_capital}' THEN
      lowered := replace(lowered, E'{dotted_i}', E'{plain_i}');
      letters := (
        SELECT coalesce(string_agg(capital, ''), '')
        FROM (SELECT DISTINCT match[1] COLLATE "C" FROM regexp_matches(lowered, E'{any_capital}', 'g') AS match)
          AS found(capital));
      lowered := translate(lowered, letters, translate(letters,
        E'{capitals}',
        E'{forms}'));
    END IF;
"""


def _body() -> str:
    return f"""
DECLARE
  lowered text COLLATE "C" := content;
  letters text COLLATE "C";
  bytes bytea;
  size integer;
  lead integer;
  first integer;
  second integer;
  third integer := 0;
  behind integer;
  dimension integer;
  counts integer[] := array_fill(0, ARRAY[32], ARRAY[0]);
BEGIN
  IF octet_length(lowered) > char_length(lowered) THEN
{_lowering()}\
  END IF;
  lowered := lower(lowered COLLATE "C");
{_COUNTING}\
  RETURN counts;
END
"""


# Positions are counted in bytes: reaching the n-th character of a text takes n steps, the n-th byte takes one.
_COUNTING = """\
  bytes := convert_to(lowered, 'UTF8');
  size := octet_length(bytes);
  IF size = char_length(lowered) THEN
    FOR start IN 1..size - 2 LOOP
      dimension := get_byte(decode(md5(substr(bytes, start, 3)), 'hex'), 15) & 31;
      counts[dimension] := counts[dimension] + 1;
    END LOOP;
  ELSE
    -- first, second and third are where the last three characters begin, behind is where the third ends.
    WHILE third < size LOOP
      lead := get_byte(bytes, third);
      behind := third + CASE WHEN lead < 128 THEN 1 WHEN lead < 224 THEN 2 WHEN lead < 240 THEN 3 ELSE 4 END;
      IF first IS NOT NULL THEN
        dimension := get_byte(decode(md5(substr(bytes, first + 1, behind - first)), 'hex'), 15) & 31;
        counts[dimension] := counts[dimension] + 1;
      END IF;
      first := second;
      second := third;
      third := behind;
    END LOOP;
  END IF;
"""
