"""Tables that hold something of a namespace beside its memories."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Identity,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import UUID


def key_length(column: str) -> str:
    """Return the condition that a key is not empty, and fits an index."""
    return f"octet_length({column}) BETWEEN 1 AND 255"


def write_tokens(metadata: MetaData) -> Table:
    """Remember what committed, until nobody asks any more. A token begins with its time: old ones are together."""
    return Table(
        "write_tokens",
        metadata,
        Column("namespace", Text, nullable=False),
        Column("token", UUID, nullable=False),
        Column("changed", BigInteger, nullable=False, server_default=text("0")),
        PrimaryKeyConstraint("namespace", "token", name="write_tokens_pkey"),
        CheckConstraint(key_length("namespace"), name="write_tokens_namespace_check"),
    )


def namespace_settings(metadata: MetaData) -> Table:
    """What is set for a namespace."""
    return Table(
        "namespace_settings",
        metadata,
        Column("namespace", Text, nullable=False),
        Column("language", Text, nullable=False, server_default=text("'english'")),
        # The number behind which every event of the change feed is kept; null where there is no feed.
        Column("changes_from", BigInteger),
        Column("changes_notified", Boolean, nullable=False, server_default=text("true")),
        PrimaryKeyConstraint("namespace", name="namespace_settings_pkey"),
        CheckConstraint(key_length("namespace"), name="namespace_settings_namespace_check"),
        CheckConstraint(key_length("language"), name="namespace_settings_language_check"),
    )


#: How memories are related.
RELATION_TYPES = ("supports", "contradicts", "extends", "precedes", "follows", "related")

#: What an event of the change feed says.
CHANGE_KINDS = ("added", "updated", "superseded", "archived", "restored", "deleted", "related", "unrelated")


def changes(metadata: MetaData) -> Table:
    """The events of the change feeds: what happened to which memory, and nothing of what is in it."""
    return Table(
        "changes",
        metadata,
        Column("namespace", Text, nullable=False),
        Column("seq", BigInteger, Identity(always=True), nullable=False),
        Column(
            "created_at",
            DateTime(timezone=True),
            nullable=False,
            server_default=text("statement_timestamp()"),
        ),
        Column("version", BigInteger),
        Column("kind", Text, nullable=False),
        Column("memory_id", Text, nullable=False),
        Column("target_id", Text),
        Column("relation_type", Text),
        Column("label", Text),
        PrimaryKeyConstraint("namespace", "seq", name="changes_pkey"),
        CheckConstraint(key_length("namespace"), name="changes_namespace_check"),
        CheckConstraint(f"kind IN {CHANGE_KINDS}", name="changes_kind_check"),
        # Who has the rights of a principal may write what the feed cannot be read with, or that fills memory.
        CheckConstraint(key_length("memory_id"), name="changes_memory_id_check"),
        CheckConstraint(key_length("target_id"), name="changes_target_id_check"),
        CheckConstraint(f"relation_type IN {RELATION_TYPES}", name="changes_relation_type_check"),
        CheckConstraint("octet_length(label) <= 255", name="changes_label_check"),
    )


def known_words(metadata: MetaData) -> Table:
    """The words of a namespace, for what is misspelt."""
    return Table(
        "known_words",
        metadata,
        Column("namespace", Text, nullable=False),
        Column("word", Text(collation="C"), nullable=False),
        Column("memories", BigInteger, nullable=False),
        PrimaryKeyConstraint("namespace", "word", name="known_words_pkey"),
        CheckConstraint(key_length("namespace"), name="known_words_namespace_check"),
    )
