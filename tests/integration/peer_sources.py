"""What the packages of the peers write: tables as they made them and rows as they wrote them, recorded.

By mem0ai 2.2.1 (``Memory.add`` and ``update`` with the pgvector store), langgraph-checkpoint-postgres 3.2.0
(``AsyncPostgresStore.aput``), pgmemory 0.0.8 (``MemoryStore.add`` and ``expire``), and the npm package
@modelcontextprotocol/server-memory 2026.8.31. Of the tables, indexes are left out, and embeddings are shorter.
"""

from __future__ import annotations

MEM0 = """
CREATE TABLE mem0 (id uuid PRIMARY KEY, vector public.vector(3), payload jsonb);
INSERT INTO mem0 VALUES
('9c53c2d1-693c-406f-94bd-2fafb7a641a4', '[1,11,0.5]', '{"n": 3, "data": "I like tea.", "hash":
"c39f1beb2119629bf7bb3e28eb951593", "role": "user", "run_id": "run-1", "source": "chat", "user_id": "alice", "actor_id":
"alice", "agent_id": "bot", "created_at": "2026-11-30T15:14:54.680669+00:00", "updated_at":
"2026-11-30T15:14:54.680669+00:00", "text_lemmatized": "I like tea."}'),
('223c341d-72d8-46d6-86b3-bc8e16d6fdc6', '[1,11,0.5]', '{"n": 3, "data": "Noted: tea.", "hash":
"2b5ff896c9424f1c8b19dd541d1becd4", "role": "assistant", "run_id": "run-1", "source": "chat", "user_id": "alice",
"agent_id": "bot", "created_at": "2026-11-30T15:14:54.918124+00:00", "updated_at": "2026-11-30T15:14:54.918124+00:00",
"text_lemmatized": "Noted: tea."}'),
('e28686e0-80a7-4056-9242-9b4c0f5ed2b7', '[1,19,0.5]', '{"data": "Bob lives in Bergen", "hash":
"13738413d7fbef01fd2a90701a2c5d0d", "role": "user", "user_id": "bob", "created_at": "2026-11-30T15:14:54.965214+00:00",
"updated_at": "2026-11-30T15:14:55.009150+00:00", "expiration_date": "2099-12-31", "text_lemmatized":
"Bob lives in Bergen"}');
"""

LANGGRAPH = """
CREATE TABLE store (
    prefix text NOT NULL, key text NOT NULL, value jsonb NOT NULL,
    created_at timestamptz DEFAULT CURRENT_TIMESTAMP, updated_at timestamptz DEFAULT CURRENT_TIMESTAMP,
    expires_at timestamptz, ttl_minutes int, PRIMARY KEY (prefix, key)
);
INSERT INTO store VALUES
('memories.alice', 'k2', '{"food": "pizza", "rating": 5}',
 '2026-11-30 15:14:55.896048+00', '2026-11-30 15:14:55.896048+00', NULL, NULL),
('memories.bob', 'k1', '{"kind": "Memory", "content": {"content": "Bob is vegan"}}',
 '2026-11-30 15:14:55.908073+00', '2026-11-30 15:14:55.908073+00', '2099-11-30 16:14:55.908073+00', 60),
('memories.alice', 'k1', '{"kind": "preference", "text": "Alice prefers light mode"}',
 '2026-11-30 15:14:55.889476+00', '2026-11-30 15:14:55.916068+00', NULL, NULL);
"""

PGMEMORY = """
CREATE TABLE memory (
    id serial PRIMARY KEY, app_name varchar(256) NOT NULL, user_id varchar(256) NOT NULL, content text NOT NULL,
    content_embedding public.vector(3),
    content_tsv tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED,
    category varchar(32) NOT NULL DEFAULT 'general', importance int NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(), valid_from timestamptz NOT NULL DEFAULT now(),
    valid_until timestamptz, last_accessed timestamptz, source_session_id varchar(256), source_event_id varchar(256),
    source_event_timestamp timestamptz, source_role varchar(32), metadata jsonb NOT NULL DEFAULT '{}'
);
INSERT INTO memory (id, app_name, user_id, content, content_embedding, category, importance, created_at, valid_from,
    valid_until, source_session_id, source_event_id, source_event_timestamp, source_role, metadata) VALUES
(1, 'shop', 'alice', 'Alice wears size M', '[1,2,3]', 'preference', 4, '2026-11-30 15:14:59.33878+00',
 '2026-11-30 15:14:59.33878+00', NULL, 's-9', 'e-1', '2026-01-02 03:04:00+00', 'user', '{"a": {"b": 1}}'),
(2, 'shop', 'bob', 'Bob moved to Oslo', '[1,2,3]', 'general', 1, '2026-11-30 15:14:59.478011+00',
 '2026-11-30 15:14:59.478011+00', '2026-11-30 15:14:59.49871+00', NULL, NULL, NULL, NULL,
 '{"expired_at": "2026-11-30T15:14:59.498710+00:00", "expired_reason": "expired"}');
"""

MCP_JSON = (
    '{"type":"entity","name":"Ada Lovelace","entityType":"person","observations":["wrote the first program",'
    '"knew \\"Babbage\\""]}\n'
    '{"type":"entity","name":"Analytical Engine","entityType":"machine","observations":["was never finished — '
    'ünfinished"]}\n'
    '{"type":"relation","from":"Ada Lovelace","to":"Analytical Engine","relationType":"programmed"}\n'
    '{"type":"relation","from":"Ada Lovelace","to":"Charles Babbage","relationType":"wrote to"}'
)
