CREATE FUNCTION @schema@."thread_place"(thread_id text)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $function$
BEGIN
  RETURN (('x' || encode(substr(sha256(convert_to(thread_id, 'UTF8')), 1, 5), 'hex'))::bit(40)::bigint >> 1) << 24;
END
$function$
