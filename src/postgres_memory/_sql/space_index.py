"""Approximate indexes of embedding spaces: their definition, and what a statement must spell to use them.

One index serves a space in every namespace. It is partial, and holds only vectors of its own dimensions: a space of the
same name may have others in another namespace, which would not fit the expression. A statement uses it if it repeats
both conditions and the expression with constants: PostgreSQL does not match a partial index to a parameter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Float,
    FromClause,
    Integer,
    Select,
    and_,
    cast,
    column,
    func,
    literal_column,
    select,
    table,
)
from sqlalchemy.types import UserDefinedType

from ..embedding.protocol import Distance
from .calls import of_pgvector
from .names import qualified, quote, quote_text
from .parameters import text_parameter
from .schema import Tables

IndexType = Literal["vector", "halfvec", "bit"]

#: How many dimensions HNSW takes of each type.
MOST_DIMENSIONS: dict[IndexType, int] = {"vector": 2_000, "halfvec": 4_000, "bit": 64_000}
OPERATORS: dict[Distance, str] = {"cosine": "<=>", "inner_product": "<#>", "l2": "<->"}
_INDEX_NAME = re.compile(r"(memory_embeddings_[0-9a-f]{12}_)(\d+)_(?:vector|halfvec|bit)_[0-9a-f]{8}")
_CLASSES: dict[Distance, str] = {"cosine": "cosine", "inner_product": "ip", "l2": "l2"}


@dataclass(frozen=True, slots=True)
class SpaceIndexShape:
    """What an index holds: the space, the length of its vectors, how they are compared, and as what they are kept."""

    space: str
    dimensions: int
    distance: Distance
    type: IndexType


class _Kept(UserDefinedType[Any]):
    """A type of pgvector's, or bit, of so many dimensions."""

    cache_ok = True

    def __init__(self, shape: SpaceIndexShape, extension_schema: str) -> None:
        prefix = "" if shape.type == "bit" else f"{quote(extension_schema)}."
        self.name = f"{prefix}{shape.type}({shape.dimensions})"

    def get_col_spec(self, **_: Any) -> str:
        """Return the type as casts write it."""
        return self.name


def index_type(dimensions: int, distance: Distance) -> IndexType | None:
    """Return the most exact type that can be indexed with so many dimensions; None if there is none."""
    if dimensions <= MOST_DIMENSIONS["vector"]:
        return "vector"
    if dimensions <= MOST_DIMENSIONS["halfvec"]:
        return "halfvec"
    return None if distance == "l2" else "bit"


def index_prefix(space: str) -> str:
    """Return how the names of all indexes of a space begin."""
    return f"memory_embeddings_{sha256(space.encode()).hexdigest()[:12]}_"


def index_name(shape: SpaceIndexShape, m: int, ef_construction: int) -> str:
    """Return a name that tells indexes of other shapes or options apart."""
    options = sha256(f"{shape.distance} {m} {ef_construction}".encode()).hexdigest()[:8]
    return f"{index_prefix(shape.space)}{shape.dimensions}_{shape.type}_{options}"


def shape_of_index(name: str, space: str, distance: Distance) -> SpaceIndexShape:
    """Return what an index of ``space`` holds, by its name."""
    dimensions, kind, _ = name.removeprefix(index_prefix(space)).split("_")
    return SpaceIndexShape(space, int(dimensions), distance, _type(kind))


def _type(kind: str) -> IndexType:
    return next(type_ for type_ in MOST_DIMENSIONS if type_ == kind)


def parts_of_index_name(name: str) -> tuple[str, int] | None:
    """Return how the names of the indexes of its space begin, and its dimensions; None if it is not one of ours."""
    parts = _INDEX_NAME.fullmatch(name)
    return None if parts is None else (parts[1], int(parts[2]))


def create_space_index(tables: Tables, shape: SpaceIndexShape, m: int, ef_construction: int) -> str:
    """Return the statement that builds an index while others read and write."""
    extension = quote(tables.extension_schema)
    kept = _Kept(shape, tables.extension_schema).name
    if shape.type == "bit":
        key = f"({extension}.binary_quantize(embedding)::{kept}) {extension}.bit_hamming_ops"
    else:
        key = f"(embedding::{kept}) {extension}.{shape.type}_{_CLASSES[shape.distance]}_ops"
    return (
        f"CREATE INDEX CONCURRENTLY {quote(index_name(shape, m, ef_construction))} "
        f"ON {qualified(tables.schema, 'memory_embeddings')} USING hnsw ({key}) "
        f"WITH (m = {m}, ef_construction = {ef_construction}) "
        f"WHERE space = {quote_text(shape.space)} AND {extension}.vector_dims(embedding) = {shape.dimensions}"
    )


def drop_space_index(tables: Tables, name: str) -> str:
    """Return the statement that drops an index while others read and write."""
    return f"DROP INDEX CONCURRENTLY IF EXISTS {qualified(tables.schema, name)}"


def indexed_rows(tables: Tables, embeddings: FromClause, shape: SpaceIndexShape) -> ColumnElement[bool]:
    """Return the condition under which rows are in the index, as a statement that uses it must spell it."""
    dimensions = of_pgvector(tables, "vector_dims", Integer(), embeddings.c.embedding)
    space: ColumnElement[str] = literal_column(quote_text(shape.space))
    return and_(embeddings.c.space == space, dimensions == literal_column(str(shape.dimensions)))


def indexed_distance(
    tables: Tables, embedding: ColumnElement[Any], query: ColumnElement[Any], shape: SpaceIndexShape
) -> ColumnElement[float]:
    """Return the distance by which the index orders; of ``bit``, how many signs differ. ``query`` is a vector."""
    kept = _Kept(shape, tables.extension_schema)
    if shape.type == "bit":
        left, right = (of_pgvector(tables, "binary_quantize", kept, one) for one in (embedding, query))
        return _distance(tables, cast(left, kept), cast(right, kept), "<~>")
    return _distance(tables, cast(embedding, kept), cast(query, kept), OPERATORS[shape.distance])


def exact_distance(
    tables: Tables, embedding: ColumnElement[Any], query: ColumnElement[Any], distance: Distance
) -> ColumnElement[float]:
    """Return the distance of two vectors; the inner product is negative, as pgvector's operator gives it."""
    return _distance(tables, embedding, query, OPERATORS[distance])


def find_space_indexes(tables: Tables) -> Select[Any]:
    """Return the indexes whose name begins with ``prefix``, each with whether it is whole.

    ``entries`` is how many it had at the last vacuum, or when it was built; -1 where nobody knows.
    """
    classes = table("pg_class", column("oid"), column("relname"), column("reltuples"), schema="pg_catalog")
    indexes = table(
        "pg_index", column("indexrelid"), column("indrelid"), column("indisvalid"), schema="pg_catalog"
    )
    name = quote_text(qualified(tables.schema, "memory_embeddings"))
    columns: list[ColumnElement[Any]] = [
        literal_column("relname::text").label("name"),
        indexes.c.indisvalid.label("valid"),
        classes.c.reltuples.label("entries"),
    ]
    return (
        select(*columns)
        .select_from(indexes.join(classes, classes.c.oid == indexes.c.indexrelid))
        .where(
            indexes.c.indrelid == literal_column(f"{name}::regclass"),
            func.starts_with(literal_column("relname::text"), text_parameter("prefix")),
        )
        .order_by(classes.c.relname)
    )


def _distance(
    tables: Tables, left: ColumnElement[Any], right: ColumnElement[Any], operator: str
) -> ColumnElement[float]:
    qualified_operator = f"OPERATOR({quote(tables.extension_schema)}.{operator})"
    return left.op(qualified_operator, precedence=5, return_type=Float())(right)
