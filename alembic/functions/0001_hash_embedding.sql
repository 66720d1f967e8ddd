CREATE FUNCTION @schema@."hash_embedding"(content text)
RETURNS @extension@."vector"
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN @extension@."l2_normalize"(@schema@."hash_counts"(content))
