"""Tables that hold something of a namespace beside its memories."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, MetaData, PrimaryKeyConstraint, Table, Text, text
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
        PrimaryKeyConstraint("namespace", name="namespace_settings_pkey"),
        CheckConstraint(key_length("namespace"), name="namespace_settings_namespace_check"),
        CheckConstraint(key_length("language"), name="namespace_settings_language_check"),
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
