"""``postgres-memory recall``."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from postgres_memory.errors import InvalidTypeError, InvalidValueError

from . import options
from .given import json_of, text_of, time_of
from .output import add_row, complain, print_json, print_table, say, table
from .record_output import in_a_row, record_data
from .running import session

if TYPE_CHECKING:
    from postgres_memory.ranking import Preset, Ranking
    from postgres_memory.recall_records import Hits


def recall(
    query: Annotated[str, typer.Argument(show_default=False, help="A question, or words; - reads it.")],
    limit: Annotated[int, typer.Option("--limit", min=0, help="At most how many.")] = 10,
    filter: options.Filter = None,
    ranking: Annotated[
        str,
        typer.Option(
            "--ranking",
            metavar="NAME|JSON",
            help='hybrid, lexical, vector, hash, or weights such as {"recency": [0.2, 30]} (a weight, and days).',
        ),
    ] = "hybrid",
    min_score: Annotated[
        float | None, typer.Option("--min-score", show_default=False, help="Leave out all below it.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show the parts of each score.")] = False,
    *,
    exact: Annotated[
        bool, typer.Option("--exact", help="Look at all, not only at promising places.")
    ] = False,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of", metavar="TIME", show_default=False, help="Judge expiry and recency as of then."
        ),
    ] = None,
    diversity: Annotated[
        float, typer.Option("--diversity", help="From 0 to 1: how much it counts not to repeat others.")
    ] = 0.0,
    as_json: options.AsJson = False,
    embedder: options.Embedder = None,
    principal: options.As = None,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Print the memories that answer a question best, best first.

    The score is the share of the question's words that a memory holds, by their weight, and what else its ranking adds.
    The table shortens contents; --json does not.
    """
    with session(options.Target(dsn, namespace, schema, debug, principal, embedder)) as at:
        hits = at.run(
            at.verbs.recall(
                text_of(query),
                limit=limit,
                filter=json_of(filter, "--filter"),
                ranking=_ranking(ranking),
                min_score=min_score,
                exact=exact,
                as_of=time_of(as_of, "--as-of"),
                explain=explain,
                diversity=diversity,
            )
        )
    if as_json:
        print_json(_data(hits))
    else:
        _print(hits, namespace, explain=explain)


def _ranking(given: str) -> Ranking | Preset:
    """Return the name of a ranking, which the library checks, or the weights that a JSON object says."""
    from postgres_memory.ranking import Ranking

    if not given.lstrip().startswith("{"):
        return cast("Preset", given)
    weights: dict[str, Any] = json_of(given, "--ranking")
    known = [field.name for field in fields(Ranking)]
    for name in weights:
        if name not in known:
            raise InvalidValueError("--ranking", f"there is no weight {name!r}; there are {', '.join(known)}")
    if weights.get("recency") is not None:
        weights["recency"] = _recency(weights["recency"])
    return Ranking(**weights)


def _recency(pair: object) -> tuple[Any, timedelta]:
    match pair:
        case [weight, int() | float() as days]:
            try:
                return weight, timedelta(days=days)
            except OverflowError:
                raise InvalidValueError("--ranking", "recency: so many days no time has") from None
        case _:
            raise InvalidTypeError("--ranking", "recency must be a list of a weight and days")


def _data(hits: Hits) -> dict[str, Any]:
    data = [{"record": record_data(hit.record), "score": hit.score, "parts": dict(hit.parts)} for hit in hits]
    return {"hits": data, "plan": list(hits.plan)}


def _print(hits: Hits, namespace: str, *, explain: bool) -> None:
    if not hits:
        complain(f"nothing found in namespace {namespace!r}")
    else:
        parts = list(dict.fromkeys(name for hit in hits for name in hit.parts))
        made = table("score", *parts, "id", "content", numbers=("score", *parts))
        for hit in hits:
            of_score = [f"{hit.parts[name]:.2f}" if name in hit.parts else "" for name in parts]
            add_row(made, f"{hit.score:.2f}", *of_score, hit.record.id, in_a_row(hit.record.content))
        print_table(made)
    if explain:
        for sentence in hits.plan:
            say(sentence)
