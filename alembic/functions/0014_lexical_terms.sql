CREATE FUNCTION @schema@."lexical_terms"(
  namespace text, language text, content text, created_at timestamp with time zone)
RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 2000
SET search_path = pg_catalog, pg_temp
AS $function$
DECLARE
  mark text COLLATE "C" :=
    E'\x01' || substr(encode(sha256(convert_to(namespace, 'UTF8')), 'base64'), 1, 4);
  indexed text COLLATE "C" := left(content, 65536);
  parts text COLLATE "C";
  dated text := to_char(created_at AT TIME ZONE 'UTC', '"@"FMmonth "@"FMYYYY "@"FMDD "@"FMday');
  lexemes text[] := '{}';
BEGIN
  IF octet_length(indexed) > char_length(indexed) THEN
    indexed := left(normalize(indexed, NFKC), 65536);
    IF indexed ~ E'[\u0E01-\u0E3A\u0E40-\u0E4E\u0E80-\u0EFF\u0F40-\u0FBC\u1000-\u109F\u1100-\u11FF\u1780-\u17D3\u3005-\u3007\u3041-\u30FF\u3130-\u318F\u31F0-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7A3\uF900-\uFAFF\uFF66-\uFF9F\U00020000-\U0003FFFD]+' THEN
      lexemes := array(
        SELECT DISTINCT lexeme
        FROM (
          SELECT letter, place, lead(letter) OVER (PARTITION BY run ORDER BY place) AS following
          FROM regexp_matches(indexed, E'[\u0E01-\u0E3A\u0E40-\u0E4E\u0E80-\u0EFF\u0F40-\u0FBC\u1000-\u109F\u1100-\u11FF\u1780-\u17D3\u3005-\u3007\u3041-\u30FF\u3130-\u318F\u31F0-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7A3\uF900-\uFAFF\uFF66-\uFF9F\U00020000-\U0003FFFD]+', 'g') WITH ORDINALITY AS found(letters, run),
               unnest(string_to_array(found.letters[1], NULL)) WITH ORDINALITY AS single(letter, place)
        ) AS pairs,
        unnest(ARRAY[
          letter || following,
          CASE WHEN following IS NULL AND place = 1 OR letter BETWEEN E'\u3400' AND E'\uD7A3' OR letter BETWEEN E'\U00020000' AND E'\U0003FFFD' THEN letter END]) AS lexeme
        WHERE lexeme IS NOT NULL);
      indexed := regexp_replace(indexed, E'[\u0E01-\u0E3A\u0E40-\u0E4E\u0E80-\u0EFF\u0F40-\u0FBC\u1000-\u109F\u1100-\u11FF\u1780-\u17D3\u3005-\u3007\u3041-\u30FF\u3130-\u318F\u31F0-\u31FF\u3400-\u4DBF\u4E00-\u9FFF\uAC00-\uD7A3\uF900-\uFAFF\uFF66-\uFF9F\U00020000-\U0003FFFD]+', ' ', 'g');
    END IF;
  END IF;
  lexemes := lexemes || tsvector_to_array(to_tsvector(language::regconfig, indexed));
  IF indexed ~ E'[^[:space:][:punct:]][-./@:\\\\=&?#+~%|<>]+[^[:space:][:punct:]]' THEN
    parts := translate(
      array_to_string(
        array(
          SELECT words[1] FROM regexp_matches(indexed, E'[^[:space:]]*[^[:space:][:punct:]][-./@:\\\\=&?#+~%|<>]+[^[:space:][:punct:]][^[:space:]]*', 'g') AS joined(words)
          WHERE words[1] ~ '[^[:digit:][:punct:]]'),
        ' '),
      E'./@:\\=&?#+~%|<>_', '                ');
    -- A hyphen before a digit would be its sign.
    parts := regexp_replace(parts, '-([0-9])', E' \\1', 'g') || ' ' || replace(parts, '-', '');
    lexemes := lexemes || tsvector_to_array(to_tsvector(language::regconfig, parts));
  END IF;
  IF indexed ~ '[0-9](st|nd|rd|th)' THEN
    lexemes := lexemes || array(
      SELECT substring(lexeme FROM '^[0-9]+') FROM unnest(lexemes) AS lexeme WHERE lexeme ~ '^[0-9]+(st|nd|rd|th)$');
  END IF;
  RETURN string_to_array(
    substr(mark, 2) || array_to_string(lexemes || string_to_array(dated, ' '), mark), E'\x01');
END
$function$
