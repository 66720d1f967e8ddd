"""Quoting of identifiers. No name reaches SQL text without passing here."""

from __future__ import annotations


def quote(identifier: str) -> str:
    """Return the identifier in double quotes, as PostgreSQL reads any name in them."""
    return '"' + identifier.replace('"', '""') + '"'


def quote_text(value: str) -> str:
    """Return a string constant, for the few places that take no parameter."""
    doubled = value.replace("'", "''")
    return f"E'{doubled.replace(chr(92), chr(92) * 2)}'" if chr(92) in value else f"'{doubled}'"


def qualified(schema: str, name: str) -> str:
    """Return ``"schema"."name"``."""
    return f"{quote(schema)}.{quote(name)}"
