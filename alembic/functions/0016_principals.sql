CREATE FUNCTION @schema@."principal"() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN (
  SELECT nullif(nullif(nullif(
    CASE WHEN pg_catalog.pg_has_role(SESSION_USER, c.relowner, 'USAGE')
      THEN pg_catalog.current_setting('postgres_memory.principal', true) ELSE CAST(SESSION_USER AS text) END,
    ''), 'system'), '*')
  FROM pg_catalog.pg_class c WHERE c.oid = CAST(@memories@ AS pg_catalog.regclass));

CREATE FUNCTION @schema@."principal_namespace"() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE WHEN @schema@."principal"() IS NOT NULL
  THEN nullif(pg_catalog.current_setting('postgres_memory.namespace', true), '') END;

CREATE FUNCTION @schema@."may_write"(namespace text, id text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = $1 AND m.id = $2 AND m.namespace = (SELECT @schema@."principal_namespace"()) AND (m.owner = (SELECT @schema@."principal"()) OR m.writers && (SELECT ARRAY[@schema@."principal"(), '*'])));

CREATE FUNCTION @schema@."set_access"(namespace text, id text, readers text[], writers text[]) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $function$
  UPDATE @schema@."memories" AS m SET readers = $3, writers = $4
  WHERE m.namespace = $1 AND m.id = $2 AND m.namespace = (SELECT @schema@."principal_namespace"()) AND m.owner = (SELECT @schema@."principal"())
  RETURNING true
$function$;

REVOKE ALL ON FUNCTION @schema@."may_write"(text, text) FROM PUBLIC;

REVOKE ALL ON FUNCTION @schema@."set_access"(text, text, text[], text[]) FROM PUBLIC;

GRANT EXECUTE ON FUNCTION @schema@."may_write"(text, text) TO @role@;

GRANT EXECUTE ON FUNCTION @schema@."set_access"(text, text, text[], text[]) TO @role@;

CREATE POLICY memories_select ON @schema@."memories" FOR SELECT USING (namespace = (SELECT @schema@."principal_namespace"()) AND ((owner = (SELECT @schema@."principal"()) OR writers && (SELECT ARRAY[@schema@."principal"(), '*'])) OR readers && (SELECT ARRAY[@schema@."principal"(), '*'])));

CREATE POLICY memories_insert ON @schema@."memories" FOR INSERT WITH CHECK (namespace = (SELECT @schema@."principal_namespace"()) AND owner = (SELECT @schema@."principal"()) AND (content_key IS NULL OR content_key = pg_catalog.sha256(pg_catalog.convert_to(owner, 'UTF8') || '\x00'::bytea || pg_catalog.convert_to(content, 'UTF8')) OR content_key = pg_catalog.int8send(seq)) AND (supersedes IS NULL OR @schema@."may_write"(namespace, supersedes)));

CREATE POLICY memories_update ON @schema@."memories" FOR UPDATE USING (namespace = (SELECT @schema@."principal_namespace"()) AND (owner = (SELECT @schema@."principal"()) OR writers && (SELECT ARRAY[@schema@."principal"(), '*']))) WITH CHECK (namespace = (SELECT @schema@."principal_namespace"()) AND (owner = (SELECT @schema@."principal"()) OR writers && (SELECT ARRAY[@schema@."principal"(), '*'])) AND (content_key IS NULL OR content_key = pg_catalog.sha256(pg_catalog.convert_to(owner, 'UTF8') || '\x00'::bytea || pg_catalog.convert_to(content, 'UTF8')) OR content_key = pg_catalog.int8send(seq)));

CREATE POLICY memories_delete ON @schema@."memories" FOR DELETE USING (namespace = (SELECT @schema@."principal_namespace"()) AND (owner = (SELECT @schema@."principal"()) OR writers && (SELECT ARRAY[@schema@."principal"(), '*'])));

ALTER TABLE @schema@."memories" ENABLE ROW LEVEL SECURITY;

CREATE POLICY memory_hash_embeddings_select ON @schema@."memory_hash_embeddings" FOR SELECT USING (namespace = (SELECT @schema@."principal_namespace"()) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_hash_embeddings.namespace AND m.seq = memory_hash_embeddings.seq));

CREATE POLICY memory_hash_embeddings_insert ON @schema@."memory_hash_embeddings" FOR INSERT WITH CHECK (namespace = (SELECT @schema@."principal_namespace"()) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_hash_embeddings.namespace AND m.seq = memory_hash_embeddings.seq AND (m.owner = (SELECT @schema@."principal"()) OR m.writers && (SELECT ARRAY[@schema@."principal"(), '*']))));

CREATE POLICY memory_hash_embeddings_update ON @schema@."memory_hash_embeddings" FOR UPDATE USING (namespace = (SELECT @schema@."principal_namespace"()) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_hash_embeddings.namespace AND m.seq = memory_hash_embeddings.seq AND (m.owner = (SELECT @schema@."principal"()) OR m.writers && (SELECT ARRAY[@schema@."principal"(), '*']))));

ALTER TABLE @schema@."memory_hash_embeddings" ENABLE ROW LEVEL SECURITY;

CREATE POLICY memory_embeddings_select ON @schema@."memory_embeddings" FOR SELECT USING (namespace = (SELECT @schema@."principal_namespace"()) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_embeddings.namespace AND m.seq = memory_embeddings.seq));

CREATE POLICY memory_embeddings_insert ON @schema@."memory_embeddings" FOR INSERT WITH CHECK (namespace = (SELECT @schema@."principal_namespace"()) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_embeddings.namespace AND m.seq = memory_embeddings.seq AND (m.owner = (SELECT @schema@."principal"()) OR m.writers && (SELECT ARRAY[@schema@."principal"(), '*']))));

CREATE POLICY memory_embeddings_update ON @schema@."memory_embeddings" FOR UPDATE USING (namespace = (SELECT @schema@."principal_namespace"()) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_embeddings.namespace AND m.seq = memory_embeddings.seq AND (m.owner = (SELECT @schema@."principal"()) OR m.writers && (SELECT ARRAY[@schema@."principal"(), '*']))));

ALTER TABLE @schema@."memory_embeddings" ENABLE ROW LEVEL SECURITY;

CREATE POLICY memory_access_select ON @schema@."memory_access" FOR SELECT USING (namespace = (SELECT @schema@."principal_namespace"()) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_access.namespace AND m.id = memory_access.id));

ALTER TABLE @schema@."memory_access" ENABLE ROW LEVEL SECURITY;

CREATE POLICY memory_relations_select ON @schema@."memory_relations" FOR SELECT USING (namespace = (SELECT @schema@."principal_namespace"()) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_relations.namespace AND m.id = memory_relations.source_id) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_relations.namespace AND m.id = memory_relations.target_id));

CREATE POLICY memory_relations_insert ON @schema@."memory_relations" FOR INSERT WITH CHECK (namespace = (SELECT @schema@."principal_namespace"()) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_relations.namespace AND m.id = memory_relations.source_id AND (m.owner = (SELECT @schema@."principal"()) OR m.writers && (SELECT ARRAY[@schema@."principal"(), '*']))) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_relations.namespace AND m.id = memory_relations.target_id));

CREATE POLICY memory_relations_update ON @schema@."memory_relations" FOR UPDATE USING (namespace = (SELECT @schema@."principal_namespace"()) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_relations.namespace AND m.id = memory_relations.source_id AND (m.owner = (SELECT @schema@."principal"()) OR m.writers && (SELECT ARRAY[@schema@."principal"(), '*']))) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_relations.namespace AND m.id = memory_relations.target_id));

CREATE POLICY memory_relations_delete ON @schema@."memory_relations" FOR DELETE USING (namespace = (SELECT @schema@."principal_namespace"()) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_relations.namespace AND m.id = memory_relations.source_id AND (m.owner = (SELECT @schema@."principal"()) OR m.writers && (SELECT ARRAY[@schema@."principal"(), '*']))) AND EXISTS (SELECT FROM @schema@."memories" m WHERE m.namespace = memory_relations.namespace AND m.id = memory_relations.target_id));

ALTER TABLE @schema@."memory_relations" ENABLE ROW LEVEL SECURITY;

CREATE POLICY session_messages_select ON @schema@."session_messages" FOR SELECT USING (namespace = (SELECT @schema@."principal_namespace"()) AND ((owner = (SELECT @schema@."principal"()) OR writers && (SELECT ARRAY[@schema@."principal"(), '*'])) OR readers && (SELECT ARRAY[@schema@."principal"(), '*'])));

CREATE POLICY session_messages_insert ON @schema@."session_messages" FOR INSERT WITH CHECK (namespace = (SELECT @schema@."principal_namespace"()) AND owner = (SELECT @schema@."principal"()));

CREATE POLICY session_messages_delete ON @schema@."session_messages" FOR DELETE USING (namespace = (SELECT @schema@."principal_namespace"()) AND (owner = (SELECT @schema@."principal"()) OR writers && (SELECT ARRAY[@schema@."principal"(), '*'])));

ALTER TABLE @schema@."session_messages" ENABLE ROW LEVEL SECURITY;

CREATE POLICY idempotency_keys_all ON @schema@."idempotency_keys" FOR ALL USING (namespace = (SELECT @schema@."principal_namespace"()) AND owner = (SELECT @schema@."principal"()));

ALTER TABLE @schema@."idempotency_keys" ENABLE ROW LEVEL SECURITY;

CREATE POLICY namespace_settings_select ON @schema@."namespace_settings" FOR SELECT USING (namespace = (SELECT @schema@."principal_namespace"()));

ALTER TABLE @schema@."namespace_settings" ENABLE ROW LEVEL SECURITY;

CREATE POLICY embedding_spaces_select ON @schema@."embedding_spaces" FOR SELECT USING (namespace = (SELECT @schema@."principal_namespace"()));

CREATE POLICY embedding_spaces_update ON @schema@."embedding_spaces" FOR UPDATE USING (namespace = (SELECT @schema@."principal_namespace"())) WITH CHECK (false);

ALTER TABLE @schema@."embedding_spaces" ENABLE ROW LEVEL SECURITY;

ALTER TABLE @schema@."write_tokens" ENABLE ROW LEVEL SECURITY;

ALTER TABLE @schema@."known_words" ENABLE ROW LEVEL SECURITY;

GRANT USAGE ON SCHEMA @schema@ TO @role@;

GRANT SELECT, INSERT (namespace, id, created_at, language, supersedes, owner, readers, writers, updated_at, expires_at, importance, confidence, version, memory_type, status, content, metadata, tags, thread_id, session_id, content_key, place), UPDATE (updated_at, expires_at, importance, confidence, version, memory_type, status, content, metadata, tags, thread_id, session_id, content_key, place), DELETE ON @schema@."memories" TO @role@;

GRANT SELECT, INSERT (namespace, seq, status, expires_at, embedding), UPDATE (status, expires_at, embedding) ON @schema@."memory_hash_embeddings" TO @role@;

GRANT SELECT, INSERT, UPDATE (embedding) ON @schema@."memory_embeddings" TO @role@;

GRANT SELECT ON @schema@."memory_access" TO @role@;

GRANT SELECT, INSERT, UPDATE (confidence, metadata), DELETE ON @schema@."memory_relations" TO @role@;

GRANT SELECT, INSERT (namespace, session_id, created_at, message, owner, readers, writers), DELETE ON @schema@."session_messages" TO @role@;

GRANT SELECT, INSERT, UPDATE (memory_id, payload, expires_at) ON @schema@."idempotency_keys" TO @role@;

GRANT SELECT ON @schema@."namespace_settings" TO @role@;

GRANT SELECT, UPDATE (status) ON @schema@."embedding_spaces" TO @role@;

GRANT INSERT (namespace, token, changed) ON @schema@."write_tokens" TO @role@;

GRANT SELECT ON @schema@."alembic_version" TO @role@;
