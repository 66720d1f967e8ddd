"""Generated records, for property tests."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from postgres_memory.records import (
    MemoryPermissions,
    MemoryRecord,
    MemoryStatus,
    MemoryType,
)
from tests.json_values import json_metadata

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
keys = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40
).filter(lambda key: len(key.encode()) <= 255)
fractions = st.floats(min_value=0, max_value=1, allow_nan=False)
times = st.datetimes(datetime(1800, 1, 1), datetime(2900, 1, 1), timezones=st.just(UTC))

permissions = st.builds(
    MemoryPermissions,
    owner=keys,
    readers=st.lists(keys, max_size=2).map(tuple),
    writers=st.lists(keys, max_size=2).map(tuple),
)

records = st.builds(
    MemoryRecord,
    content=texts,
    memory_type=st.sampled_from(MemoryType),
    status=st.sampled_from(MemoryStatus),
    created_at=times,
    tags=st.lists(keys, max_size=3).map(tuple),
    importance=fractions,
    confidence=fractions,
    metadata=json_metadata,
    permissions=permissions,
    thread_id=st.none() | keys,
    session_id=st.none() | keys,
    expires_at=st.none() | times,
)
