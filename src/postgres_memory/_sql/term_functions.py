"""The functions behind the lexical leg: ``lexical_terms``, what a memory is found by, and ``thread_place``.

Terms are text with the mark of the namespace in front, so that one index serves all namespaces and a search reads the
entries of its own only.
"""

from __future__ import annotations

from .names import qualified

#: How much of a content is indexed, in characters: what `to_tsvector` surely takes, whatever the letters.
INDEXED_CHARACTERS = 65_536

#: How many characters of each term are the mark of its namespace.
MARK_LENGTH = 4

#: Terms of the date come last, after the mark and this sign, which no lexeme begins with.
DATE_SIGN = "@"

#: How many terms of the date each memory has.
DATE_TERMS = 4

#: Scripts written without spaces between words, whose texts are found by pairs of letters: Thai, Lao, Tibetan,
#: Myanmar, Khmer, kana, Han with its extensions, and Hangul, whose words carry their particles with them.
UNSPACED = (
    (0x0E01, 0x0E3A),
    (0x0E40, 0x0E4E),
    (0x0E80, 0x0EFF),
    (0x0F40, 0x0FBC),
    (0x1000, 0x109F),
    (0x1100, 0x11FF),
    (0x1780, 0x17D3),
    (0x3005, 0x3007),
    (0x3041, 0x30FF),
    (0x3130, 0x318F),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),
    (0x20000, 0x3FFFD),
)

#: Of these, letters that may be words by themselves and are found inside longer runs, too: Han and Hangul syllables.
SINGLE = ((0x3400, 0xD7A3), (0x20000, 0x3FFFD))

#: Marks that join words into one of PostgreSQL's parser's, beside the hyphen: as inside brackets of an expression.
JOINING = "./@:\\=&?#+~%|<>"


def lexical_terms_function(schema: str) -> str:
    """Return ``CREATE FUNCTION schema.lexical_terms(namespace, language, content, created_at) RETURNS text[]``.

    ``language`` names a text search configuration. It is text and looked up at each call, since a column of type
    regconfig would keep pg_upgrade from working; IMMUTABLE promises that a configuration stays what it is. When one
    is changed, the index must be built anew.
    """
    return f"""\
CREATE FUNCTION {qualified(schema, "lexical_terms")}(
  namespace text, language text, content text, created_at timestamp with time zone)
RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 2000
SET search_path = pg_catalog, pg_temp
AS $function${_TERMS}$function$"""


def thread_place_function(schema: str) -> str:
    """Return ``CREATE FUNCTION schema.thread_place(thread_id) RETURNS bigint``: where the places of a thread begin.

    A thread has 2²⁴ places of its own, so that neighbours in a thread are neighbours in number and other threads are
    out of reach. The beginning is a hash of 39 bits: two threads of one namespace that share it are as likely as
    two of 50,000 threads are to do so once in 440 namespaces, and would then lend each other context.
    """
    return f"""\
CREATE FUNCTION {qualified(schema, "thread_place")}(thread_id text)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
  RETURN (('x' || encode(substr(sha256(convert_to(thread_id, 'UTF8')), 1, 5), 'hex'))::bit(40)::bigint >> 1) << 24;
END
$function$"""


def _escape(code: int) -> str:
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


_BACKSLASH = chr(92)
_RUN = f"[{''.join(f'{_escape(first)}-{_escape(last)}' for first, last in UNSPACED)}]+"
_SINGLE = " OR ".join(f"letter BETWEEN E'{_escape(first)}' AND E'{_escape(last)}'" for first, last in SINGLE)

#: A path, an address, a dotted or hyphenated name: marks between letters or digits, and all up to the next spaces.
_MARK_WITHIN = rf"[^[:space:][:punct:]][-{JOINING.replace(_BACKSLASH, 4 * _BACKSLASH)}]+[^[:space:][:punct:]]"
_JOINED = f"[^[:space:]]*{_MARK_WITHIN}[^[:space:]]*"
_MARKS = JOINING.replace(_BACKSLASH, 2 * _BACKSLASH) + "_"

# string_to_array and array_to_string put the mark before every term without a query of their own, which would take
# longer than all the rest. The control character that separates the terms cannot be part of a lexeme.
# Parts of joined words have a tsvector of their own, since one for all might be longer than a tsvector can be.
_TERMS = f"""
DECLARE
  mark text COLLATE "C" :=
    E'\\x01' || substr(encode(sha256(convert_to(namespace, 'UTF8')), 'base64'), 1, {MARK_LENGTH});
  indexed text COLLATE "C" := left(content, {INDEXED_CHARACTERS});
  parts text COLLATE "C";
  dated text := to_char(created_at AT TIME ZONE 'UTC', '"@"FMmonth "@"FMYYYY "@"FMDD "@"FMday');
  lexemes text[] := '{{}}';
BEGIN
  IF octet_length(indexed) > char_length(indexed) THEN
    indexed := left(normalize(indexed, NFKC), {INDEXED_CHARACTERS});
    IF indexed ~ E'{_RUN}' THEN
      lexemes := array(
        SELECT DISTINCT lexeme
        FROM (
          SELECT letter, place, lead(letter) OVER (PARTITION BY run ORDER BY place) AS following
          FROM regexp_matches(indexed, E'{_RUN}', 'g') WITH ORDINALITY AS found(letters, run),
               unnest(string_to_array(found.letters[1], NULL)) WITH ORDINALITY AS single(letter, place)
        ) AS pairs,
        unnest(ARRAY[
          letter || following,
          CASE WHEN following IS NULL AND place = 1 OR {_SINGLE} THEN letter END]) AS lexeme
        WHERE lexeme IS NOT NULL);
      indexed := regexp_replace(indexed, E'{_RUN}', ' ', 'g');
    END IF;
  END IF;
  lexemes := lexemes || tsvector_to_array(to_tsvector(language::regconfig, indexed));
  IF indexed ~ E'{_MARK_WITHIN}' THEN
    parts := translate(
      array_to_string(
        array(
          SELECT words[1] FROM regexp_matches(indexed, E'{_JOINED}', 'g') AS joined(words)
          WHERE words[1] ~ '[^[:digit:][:punct:]]'),
        ' '),
      E'{_MARKS}', '{" " * (len(JOINING) + 1)}');
    -- A hyphen before a digit would be its sign.
    parts := regexp_replace(parts, '-([0-9])', E' \\\\1', 'g') || ' ' || replace(parts, '-', '');
    lexemes := lexemes || tsvector_to_array(to_tsvector(language::regconfig, parts));
  END IF;
  IF indexed ~ '[0-9](st|nd|rd|th)' THEN
    lexemes := lexemes || array(
      SELECT substring(lexeme FROM '^[0-9]+') FROM unnest(lexemes) AS lexeme WHERE lexeme ~ '^[0-9]+(st|nd|rd|th)$');
  END IF;
  RETURN string_to_array(
    substr(mark, 2) || array_to_string(lexemes || string_to_array(dated, ' '), mark), E'\\x01');
END
"""
