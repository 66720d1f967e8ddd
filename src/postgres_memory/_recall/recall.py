"""`recall`: the memories that a query asks for, ranked by words, context and whatever else the ranking weighs."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .._context import Context
from .._record_checks import check_time
from .._sql.pending import list_spaces
from .._sql.predicates import prepare_filter
from .._sql.recalling import recall_hash, recall_lexical
from .._sql.records import record_from_row
from .._sql.scoring import PARTS, RecallShape
from .._sql.searching import SHORT_QUERY_SQUARED_NORM
from .._validation import check_content, check_limit
from ..embedding.counting import counts_of, squared_norm
from ..embedding.fields import name_of_field
from ..errors import EmbedderError, InvalidTypeError, InvalidValueError
from ..filters import Filter, check_filter
from ..ranking import Ranking, check_ranking
from ..recall_records import Hit, Hits
from .after import Reranker, check_diversity, check_reranker, diversify, rerank
from .nearest import nearest
from .question import read_question
from .reading import read_again
from .space import MOST_CAREFUL, space_of_embedder

if TYPE_CHECKING:
    from asyncpg import Record

    from .._sql.predicates import Shape

#: How much a word counts that stands so many memories away in the thread.
WINDOW = {distance: 1 / (1 + abs(distance)) for distance in (1, 2, 3, 4, -1, -2, -3, -4)}
#: The share of a word that the memory just before asks with: an answer takes over the words of its question.
ANSWER = 1.0
#: How much the rarity of a word among threads counts beside its rarity among memories.
THREAD_RARITY = 1.0
#: How many blocks and how many memories are looked at closely for one that is returned, and at the least.
_BLOCKS, _CANDIDATES = (20, 200), (8, 80)
#: A limit from which everything that holds a word is looked at closely.
_LARGE_LIMIT = 500
#: How many of the nearest by their vectors come in, at the least.
_NEAREST = 100

#: How many hits are read for one that is returned, and at the least, where others judge or choose.
_READ = (4, 40)

#: What the statement says of how the nearest were found.
_WHY = {
    "alone": ", every memory that matches, exactly",
    "small": ", every memory that matches, exactly, since the space has few embeddings in this namespace",
    "few": ", every memory that matches, exactly, since few do",
    "short": ", every memory that matches, exactly, since the index gave too few that do",
    "equal": ", every memory that matches, exactly, since the index gave many equal vectors",
    "index": ", by the index, since many memories match",
}

#: No filter.
_ALL = prepare_filter(check_filter(None))

_WITHOUT_WORDS = "lexical: left out, it has no weight"

_logger = logging.getLogger(__name__)


async def recall(
    context: Context,
    query: str,
    *,
    limit: int,
    filter: Filter | Mapping[str, Any] | None = None,
    ranking: Ranking | str,
    min_score: float | None = None,
    exact: bool = False,
    as_of: datetime | None = None,
    explain: bool = False,
    reranker: Reranker | None = None,
    diversity: float = 0.0,
) -> Hits:
    """Check, split the query into words, rank in one statement."""
    text = check_content(query, "query", max_bytes=context.limits.content_bytes)
    at_most = check_limit(limit)
    chosen = check_ranking(ranking)
    check_reranker(reranker)
    varied = check_diversity(diversity)
    least = _check_min_score(min_score)
    read = _looked_at(at_most, _READ) if reranker is not None or varied else at_most
    prepared = _ALL if filter is None else prepare_filter(check_filter(filter))
    parameters = prepared.parameters | _weights(chosen)
    parameters |= {
        "namespace": context.namespace,
        "limit": read,
        "min_score": -math.inf if least is None or reranker is not None else least,
        "as_of": None if as_of is None else check_time(as_of, "as_of"),
        "blocks": _looked_at(read, _BLOCKS),
        "candidates": None if exact else _looked_at(read, _CANDIDATES),
        "nearest": _looked_at(read, (1, _NEAREST)),
        "ef_search": MOST_CAREFUL,
    }
    if not at_most:
        await context.ready()
        return Hits()
    if chosen.space == "hash":
        rows, plan = await _by_hash(context, text, parameters, prepared.shape)
    else:
        shape = RecallShape(
            prepared.shape,
            names_field=explain and not context.fields.are_usual,
            filtered=filter is not None,
            pruned=not exact and read < _LARGE_LIMIT,
            relations=bool(chosen.relations),
            priors=bool(chosen.recency or chosen.importance or chosen.confidence),
        )
        rows, plan = await _by_words(context, text, parameters, chosen, shape, exact=exact)
    if explain:
        plan += await _pending(context, chosen)
    hits = await _seen(context, _hits(rows, explain=explain))
    if reranker is not None:
        hits = await rerank(text, hits, reranker)
        hits = [hit for hit in hits if least is None or hit.score >= least]
    hits = diversify(hits, varied, at_most) if varied else hits[:at_most]
    await context.touch([hit.record.id for hit in hits])
    return Hits(hits, plan)


async def _seen(context: Context, hits: list[Hit]) -> list[Hit]:
    """Return the hits as who is asking sees them."""
    if context.principal is None:
        return hits
    seen = await read_again(context, [hit.record.id for hit in hits])
    return [replace(hit, record=seen[hit.record.id]) for hit in hits if hit.record.id in seen]


def _looked_at(limit: int, counts: tuple[int, int]) -> int:
    per_hit, least = counts
    return check_limit(max(per_hit * limit, least))  # no more than a bigint holds


async def _by_hash(
    context: Context, text: str, parameters: dict[str, Any], shape: Shape
) -> tuple[list[Record], tuple[str, ...]]:
    counts = await counts_of(text)
    norm = squared_norm(counts)
    parameters |= {"counts": counts, "query_norm": float(norm)}
    rows = await context.candidates(recall_hash, parameters, norm > SHORT_QUERY_SQUARED_NORM, shape)
    return rows, ("vector: hash space, every memory that matches, exactly",)


async def _by_words(
    context: Context,
    text: str,
    parameters: dict[str, Any],
    ranking: Ranking,
    shape: RecallShape,
    *,
    exact: bool,
) -> tuple[list[Record], tuple[str, ...]]:
    vector, note = await _vector(context, text, ranking)
    small, space = False, None
    if vector is not None and context.embedder is not None:
        parameters |= {
            "query_vector": vector,
            "dimensions": len(vector),
            "space": context.embedder.space,
        }
        space = await space_of_embedder(context, context.embedder)
        index = None if exact or not space.many else space.index
        small = space.index is not None and not (exact or space.many)
        words, questions, nearby = _beside_vectors(context, ranking)
        shape = replace(
            shape,
            words=words,
            questions=questions,
            nearby=nearby,
            distance=context.embedder.distance,
            index=index,
            fields=context.fields,
            by_rank=ranking.fusion == "rrf",
        )
    if space is not None and shape.vector_alone:
        rows = await nearest(context, parameters, shape, space)
        if rows:
            return rows, (_WITHOUT_WORDS, note + _how(rows[0], small=small))
    parameters |= _question(context, text, ranking)
    if not shape.words:
        rows = await context.candidates(recall_lexical, parameters, shape)
        if _are_all(shape, rows, parameters):
            return rows, (_WITHOUT_WORDS, _searched(rows, note, shape.distance, small=small))
        shape = replace(shape, words=True, questions=True)
    if ranking.typos and await _compares_words(context):
        shape = replace(shape, typos=True)
    rows = await context.candidates(recall_lexical, parameters, shape)
    where = _where(shape, rows)
    if shape.pruned and not _enough(shape, rows, parameters):
        rows = await context.candidates(recall_lexical, parameters, replace(shape, pruned=False))
        where = "every place that has a word, since too few promising ones match"
    read_as = _read_as(rows[0]) if shape.typos and rows else ()
    return rows, (f"lexical: {where}", *read_as, _searched(rows, note, shape.distance, small=small))


def _beside_vectors(context: Context, ranking: Ranking) -> tuple[bool, bool, bool]:
    """Say whether words of the query are looked for, questions told apart, and what is nearby looked at.

    No word is looked for if those weigh nothing and name no subject that does; the others may be left out then.
    """
    if ranking.lexical or (context.subject_field is not None and ranking.subject != 1):
        return True, True, True
    return False, ranking.question != 1, bool(ranking.context or ranking.thread)


def _are_all(shape: RecallShape, rows: list[Record], parameters: Mapping[str, Any]) -> bool:
    """Say whether the vectors gave enough: if not, what holds a word of the query comes first of the others."""
    limit, every = parameters["limit"], parameters["min_score"] == -math.inf
    if rows and rows[0]["found"] >= limit:
        return True
    return len(rows) < limit and (every or not shape.priors)


async def _compares_words(context: Context) -> bool:
    """Say whether misspelt words can be replaced. Known words are of all memories, hence not for a principal."""
    return context.principal is None and (await context.database.opened()).tables.trigram_schema is not None


def _read_as(row: Record) -> tuple[str, ...]:
    """Say which words of the query were replaced, and by which."""
    pairs = zip(row["misspelt"] or (), row["nearest"] or (), strict=True)
    return tuple(f'typos: no memory holds "{word}", read as "{known}"' for word, known in pairs)


def _enough(shape: RecallShape, rows: list[Record], parameters: Mapping[str, Any]) -> bool:
    """Say whether nothing is missing because only some places were looked at closely."""
    if rows:
        return bool(rows[0]["complete"] or rows[0]["found"] >= parameters["limit"])
    # Without a row nothing matches, unless what was found had too low a score.
    return not shape.filtered or parameters["min_score"] == -math.inf


def _searched(rows: list[Record], note: str, distance: str | None, *, small: bool) -> str:
    if distance is None or not rows:
        return note
    if not rows[0]["searched"]:
        return "vector: left out, the embedder's space holds no vectors of its dimensions that are searched"
    return note + _how(rows[0], small=small)


def _how(row: Record, *, small: bool) -> str:
    why = row["vector_why"]
    return _WHY.get("small" if small and why == "alone" else why, "")


def _where(shape: RecallShape, rows: list[Record]) -> str:
    if not shape.pruned:
        return "every place that has a word of the query"
    if not shape.filtered:
        return "the most promising places"
    if not rows or rows[0]["complete"]:
        return "the places of all that match the filter"
    return "the most promising places, since many match the filter"


async def _vector(context: Context, text: str, ranking: Ranking) -> tuple[list[float] | None, str]:
    """Return the vector of the query, or why it is done without: what there is is ranked also if the embedder fails."""
    if not ranking.vector:
        return None, "vector: left out, it has no weight"
    embedder = context.embedder
    if embedder is None and not ranking.lexical:
        raise InvalidValueError("ranking", "weighs vectors alone, and this object has no embedder")
    if embedder is None:
        return None, "vector: left out, there is no embedder"
    space = await space_of_embedder(context, embedder)
    if space.dimensions is None:
        return None, f"vector: left out, there is no space {embedder.space!r} yet"
    try:
        vector = await embedder.embed_query(text)
    except EmbedderError as error:
        return None, _without(str(error), said=error.without_words)
    zero = not any(vector) and embedder.distance == "cosine"
    if len(vector) != space.dimensions:
        held = f"space {embedder.space!r} holds vectors of {space.dimensions} dimensions"
        return None, _without(f"{held}, and the embedder gave {len(vector)}")
    said = "vector: left out, that of the query is zero" if zero else f"vector: space {embedder.space!r}"
    return None if zero else vector, said


def _without(problem: str, *, said: str | None = None) -> str:
    """Log why, as it may be ``said`` where contents are kept out, and return it for the plan."""
    _logger.warning("recall ranks without vectors: %s", said or problem)
    if said is not None:
        _logger.debug("the embedder failed: %s", problem)
    return f"vector: left out, {problem}"


async def _pending(context: Context, ranking: Ranking) -> tuple[str, ...]:
    """Say how many memories no vector can find, which takes a look at all of them."""
    if context.embedder is None or not ranking.vector or ranking.space == "hash":
        return ()
    name = context.embedder.space
    rows = await context.fetch(list_spaces, {"namespace": context.namespace}, context.fields)
    return tuple(
        f"pending: {row['pending']} memories in space {name!r}" for row in rows if row["name"] == name
    )


def _check_min_score(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidTypeError("min_score", "must be a number or None")
    try:
        score = float(value)
    except OverflowError:
        raise InvalidValueError("min_score", "must be a number that a float holds") from None
    if math.isnan(score):
        raise InvalidValueError("min_score", "must not be NaN")
    return score


def _weights(ranking: Ranking) -> dict[str, Any]:
    recency, half_life = ranking.recency or (0.0, None)
    window = WINDOW if ranking.context else {}
    return {
        "lexical_weight": float(ranking.lexical),
        "vector_weight": float(ranking.vector),
        "distances": [0, *window],
        "nearness": [1.0, *(ranking.context * share for share in window.values())],
        "answer": ANSWER * ranking.context,
        "around": float(ranking.context),
        "thread_rarity": THREAD_RARITY if ranking.context else 0.0,
        "subject": float(ranking.subject),
        "question": float(ranking.question),
        "relations": float(ranking.relations),
        "thread": float(ranking.thread),
        "typos": float(ranking.typos),
        "recency": float(recency),
        "half_life_seconds": None if half_life is None else half_life.total_seconds(),
        "importance": float(ranking.importance),
        "confidence": float(ranking.confidence),
    }


def _question(context: Context, text: str, ranking: Ranking) -> dict[str, Any]:
    question = read_question(text, forms=ranking.forms, dates=ranking.dates)
    return {
        "words": question.words,
        "groups": question.groups,
        "ready": question.ready,
        "names": question.names,
        "subject_field": context.subject_field,
    }


def _hits(rows: list[Record], *, explain: bool) -> list[Hit]:
    hits = []
    for row in rows:
        parts = {name: part for name in PARTS if (part := row.get(f"part_{name}"))} if explain else {}
        field = row.get("field")
        hits.append(
            Hit(record_from_row(row), row["score"], parts, None if field is None else name_of_field(field))
        )
    return hits
