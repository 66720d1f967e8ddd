"""pgvector's type under the schema its extension lives in."""

from __future__ import annotations

from typing import Any

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import ColumnElement, Float

from .names import quote


class QualifiedVector(VECTOR):
    """``"schema".vector(n)``: pgvector's own type writes the bare name, which needs the search_path."""

    cache_ok = True

    def __init__(self, dim: int | None, extension_schema: str) -> None:
        super().__init__(dim)
        self.extension_schema = extension_schema

    def get_col_spec(self, **_: Any) -> str:
        """Return the type as DDL and casts write it."""
        size = "" if self.dim is None else f"({self.dim})"
        return f"{quote(self.extension_schema)}.vector{size}"


def negative_inner_product(
    left: ColumnElement[Any], right: ColumnElement[Any], extension_schema: str
) -> ColumnElement[float]:
    """Return ``left <#> right``, pgvector's negative inner product, with its operator qualified."""
    return left.op(f"OPERATOR({quote(extension_schema)}.<#>)", precedence=5, return_type=Float())(right)
