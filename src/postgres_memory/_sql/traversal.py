"""The walk along relations: one recursive statement, whose cost is bounded whatever the graph looks like.

It goes step by step (breadth first). A step holds, for every memory that is reached with so many relations, the best
way of that length: of the ways to its predecessors of the step before, with one relation more. Since confidences
multiply and are at most 1, the best way of all is among these, and there are at most depth times memories of them,
where the number of all ways grows exponentially.

Two caps bound the reading. Each memory's relations are taken in the order of an index, most confident first, and no
more than ``max_fan_out``; the relations taken are counted from the best way of each step on, and end at ``max_visits``.
What is beyond a cap comes as a row without a memory, so that the outcome can say so. LATERAL with OFFSET 0 keeps
every other join a lookup per row: the planner, which cannot know how far a walk goes, would read whole tables into
hash joins.

Below 1e-307 a product counts as zero. A threshold on the confidence of a way bounds the scan of the index too; it is
a little lowered there, because a quotient may be rounded up, and compared exactly afterwards.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    Boolean,
    ColumnElement,
    Double,
    FromClause,
    Integer,
    Select,
    Subquery,
    Text,
    and_,
    case,
    cast,
    column,
    func,
    literal_column,
    not_,
    or_,
    select,
    true,
    type_coerce,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY, aggregate_order_by

from .parameters import float_parameter, number_parameter, text_parameter, texts_parameter
from .predicates import Visibility, visible
from .relations import record_without_relations
from .schema import Tables

_ONE = literal_column("1", BigInteger)
#: What a way carries from step to step, beside the memory it has come to.
_CARRIED = ("path", "types", "labels", "forwards")
_RELATION = ("relation_type", "label", "edge_confidence", "forward")


def get_related(tables: Tables, visibility: Visibility) -> Select[Any]:
    """Walk from one memory and select the memories reached, best way first, each as a record with its way.

    The records come without their relations: hubs are what walks lead to, and theirs have no bound.

    ``visibility`` says which memories are walked over. Returns no row where there is no memory to begin with; else each
    row says whether the walk was cut (``truncated``), and the only one is null beyond that where none was reached.
    """
    memories = tables.memories
    start = (
        select(memories.c.namespace, memories.c.id)
        .where(memories.c.namespace == text_parameter("namespace"), memories.c.id == text_parameter("id"))
        .cte("start")
    )
    walk = _walk(tables, start, visibility)
    best = _best(walk)
    record = record_without_relations(
        tables, memories.c.namespace == best.c.namespace, memories.c.id == best.c.node
    )
    return (
        select(
            *record.c,
            select(walk.c.cut).where(walk.c.cut).exists().label("truncated"),
            best.c.path,
            best.c.depth,
            best.c.walked.label("path_confidence"),
            best.c.forwards,
            _steps(tables, best).label("steps"),
        )
        .select_from(start.outerjoin(best.join(record, true()), true()))
        .order_by(best.c.walked.desc(), best.c.depth, best.c.node.collate("C"))
    )


def _walk(tables: Tables, start: CTE, visibility: Visibility) -> CTE:
    """Collect the best way of each length to each memory; ``walked`` is the product of the confidences on it."""
    empty_texts = literal_column("'{}'::text[]", ARRAY(Text))
    empty_booleans = literal_column("'{}'::boolean[]", ARRAY(Boolean))
    walk = select(
        start.c.namespace,
        start.c.id.label("node"),
        literal_column("0", Integer).label("depth"),
        literal_column("1::double precision", Double).label("walked"),
        func.array_append(empty_texts, start.c.id, type_=ARRAY(Text)).label("path"),
        empty_texts.label("types"),
        empty_texts.label("labels"),
        empty_booleans.label("forwards"),
        literal_column("0::bigint", BigInteger).label("visits"),
        literal_column("false", Boolean).label("cut"),
    ).cte("walk", recursive=True)
    step = _best_of_step(tables, _counted(_taken(tables, walk)), visibility)

    def grown(name: str, by: str, kind: Any) -> ColumnElement[Any]:
        return func.array_append(step.c[name], step.c[by], type_=ARRAY(kind)).label(name)

    return walk.union_all(
        select(
            step.c.namespace,
            step.c.node,
            step.c.depth,
            step.c.product,
            grown("path", "node", Text),
            grown("types", "relation_type", Text),
            grown("labels", "label", Text),
            grown("forwards", "forward", Boolean),
            step.c.visits,
            step.c.cut,
        )
    )


def _taken(tables: Tables, walk: CTE) -> Subquery:
    """Take the relations of the memories of the last step, from the best way on, and mark those beyond a cap."""
    frontier = (
        select(walk)
        .where(walk.c.node.is_not(None), walk.c.depth < number_parameter("max_depth"))
        .order_by(walk.c.walked.desc(), _by_ids(walk.c.path))
        .subquery("frontier")
    )
    onward = _onward(tables)
    visits, fan_out = number_parameter("max_visits"), number_parameter("max_fan_out")
    count = frontier.c.visits + func.row_number(type_=BigInteger).over()
    return (
        select(
            frontier.c.namespace,
            (frontier.c.depth + literal_column("1", Integer)).label("depth"),
            frontier.c.visits,
            *(frontier.c[name] for name in _CARRIED),
            _product(frontier.c.walked, onward.c.edge_confidence).label("product"),
            onward.c.other,
            *(onward.c[name] for name in _RELATION),
            or_(onward.c.place > fan_out, count > visits).label("cut"),
        )
        .select_from(frontier.join(onward, true()))
        .limit(visits + _ONE)
        .subquery("taken")
    )


def _product(walked: ColumnElement[float], confidence: ColumnElement[float]) -> ColumnElement[float]:
    """Multiply, but give zero below 1e-307, where PostgreSQL would raise an error for an underflow."""
    zero = literal_column("0::double precision", Double)
    least: ColumnElement[float] = literal_column("1e-307::double precision", Double).op(
        "/", return_type=Double()
    )(func.nullif(confidence, zero, type_=Double))
    return case((walked >= least, walked * confidence), else_=zero)


def _onward(tables: Tables) -> FromClause:
    """Select the relations of the memory ``frontier.node``, either way, in the order in which they are taken."""
    legs = union_all(
        _leg(tables, ("source_id", "target_id", "true"), "source_types"),
        _leg(tables, ("target_id", "source_id", "false"), "target_types"),
    ).subquery("legs")
    in_order = (
        select(legs)
        .order_by(
            legs.c.edge_confidence.desc(),
            legs.c.other,
            legs.c.relation_type,
            legs.c.label,
            legs.c.forward.desc(),
        )
        .limit(number_parameter("max_fan_out") + _ONE)
        .subquery("in_order")
    )
    return select(in_order, func.row_number(type_=BigInteger).over().label("place")).lateral("onward")


def _leg(tables: Tables, way: tuple[str, str, str], types: str) -> Select[Any]:
    near, far, forward = way
    relations = tables.memory_relations.alias()
    # By name, since SQLAlchemy would put a column's own table into FROM, two levels inside a lateral subquery.
    namespace, node = literal_column("frontier.namespace", Text), literal_column("frontier.node", Text)
    walked, zero = literal_column("frontier.walked", Double), literal_column("0::double precision", Double)
    lowered = (
        float_parameter("min_confidence")
        / walked
        * literal_column("0.999999999999::double precision", Double)
    )
    least = case((walked > zero, lowered), else_=zero)
    return (
        select(
            relations.c[far].label("other"),
            relations.c.relation_type,
            relations.c.label,
            relations.c.confidence.label("edge_confidence"),
            literal_column(forward, Boolean).label("forward"),
        )
        .where(
            relations.c.namespace == namespace,
            relations.c[near] == node,
            relations.c.relation_type == func.any(texts_parameter(types)),
            relations.c.confidence >= least,
        )
        .order_by(
            relations.c.confidence.desc(), relations.c[far], relations.c.relation_type, relations.c.label
        )
        .limit(number_parameter("max_fan_out") + _ONE)
    )


def _by_ids(path: ColumnElement[Any]) -> ColumnElement[Any]:
    """Order a path by its ids, character by character. SQLAlchemy knows COLLATE only for texts."""
    return type_coerce(path, Text()).collate("C")


def _counted(taken: Subquery) -> Subquery:
    """Add up the visits so far, and leave what is beyond a cap without a memory."""
    total = taken.c.visits + func.count(type_=BigInteger).over()
    names = ("namespace", "depth", *_CARRIED, "product", *_RELATION, "cut")
    return select(
        *(taken.c[name] for name in names),
        total.label("visits"),
        case((not_(taken.c.cut), taken.c.other)).label("node"),
    ).subquery("counted")


def _best_of_step(tables: Tables, counted: Subquery, visibility: Visibility) -> Subquery:
    """Keep the best way to each memory, if it may be seen and the way has not been there before."""
    memories = tables.memories
    reached = (
        select(memories.c.id, memories.c.status, memories.c.expires_at)
        .where(memories.c.namespace == counted.c.namespace, memories.c.id == counted.c.node)
        .offset(literal_column("0"))
        .lateral("reached")
    )
    passes = [
        counted.c.product >= float_parameter("min_confidence"),
        counted.c.node != func.all(counted.c.path),
        reached.c.id.is_not(None),
        visible(reached, visibility),
    ]
    ranked = (
        select(counted, _rank(counted.c.node, _step_order(counted)))
        .select_from(counted.outerjoin(reached, true()))
        .where(or_(counted.c.cut, and_(*passes)))
        .subquery("ranked")
    )
    return select(ranked).where(ranked.c.rank == _ONE).subquery("step")


def _step_order(counted: Subquery) -> list[ColumnElement[Any]]:
    return [
        counted.c.product.desc(),
        _by_ids(counted.c.path),
        counted.c.relation_type.collate("C"),
        counted.c.label.collate("C"),
        counted.c.forward.desc(),
    ]


def _rank(node: ColumnElement[str], order: list[ColumnElement[Any]]) -> ColumnElement[int]:
    """Number the ways to each memory from the best on."""
    return func.row_number(type_=BigInteger).over(partition_by=node, order_by=order).label("rank")


def _best(walk: CTE) -> CTE:
    """Choose among the lengths: the best way to each memory, and of the memories the best."""
    each = (
        select(walk, _rank(walk.c.node, [walk.c.walked.desc(), walk.c.depth]))
        .where(walk.c.node.is_not(None), walk.c.depth > literal_column("0", Integer))
        .subquery("each")
    )
    return (
        select(each)
        .where(each.c.rank == _ONE)
        .order_by(each.c.walked.desc(), each.c.depth, each.c.node.collate("C"))
        .limit(number_parameter("limit"))
        .cte("best")
    )


def _steps(tables: Tables, best: FromClause) -> ColumnElement[str]:
    """Return the relations of a way as the text of a JSON array of [type, label, confidence, metadata]."""
    relations = tables.memory_relations
    step = (
        func.generate_subscripts(best.c.types, literal_column("1"))
        .table_valued(column("place", Integer), name="places")
        .render_derived()
    )
    near, far = best.c.path[step.c.place], best.c.path[step.c.place + literal_column("1", Integer)]
    forward = best.c.forwards[step.c.place]
    walked = (
        select(*(relations.c[name] for name in ("relation_type", "label", "confidence", "metadata")))
        .where(
            relations.c.namespace == best.c.namespace,
            relations.c.source_id == case((forward, near), else_=far),
            relations.c.relation_type == best.c.types[step.c.place],
            relations.c.label == best.c.labels[step.c.place],
            relations.c.target_id == case((forward, far), else_=near),
        )
        .offset(literal_column("0"))
        .correlate(best, step)
        .lateral("walked")
    )
    item = func.jsonb_build_array(
        walked.c.relation_type, walked.c.label, walked.c.confidence, walked.c.metadata
    )
    return (
        select(cast(func.jsonb_agg(aggregate_order_by(item, step.c.place)), Text))
        .select_from(step.join(walked, true()))
        .correlate(best)
        .scalar_subquery()
    )
