"""``postgres-memory find``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from . import options
from .given import json_of
from .output import complain, print_json
from .record_output import print_records, record_data
from .running import session


class Order(StrEnum):
    """What memories are listed by; with a minus the largest first."""

    CREATED = "created_at"
    LAST_CREATED = "-created_at"
    UPDATED = "updated_at"
    LAST_UPDATED = "-updated_at"
    IMPORTANCE = "importance"
    MOST_IMPORTANT = "-importance"


def find(
    filter: options.Filter = None,
    order_by: Annotated[
        Order,
        typer.Option(
            "--order-by",
            metavar="FIELD",
            help="created_at, updated_at or importance; with a minus, as in -importance, the largest first.",
        ),
    ] = Order.LAST_CREATED,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many to a page.")] = 50,
    cursor: Annotated[
        str | None,
        typer.Option("--cursor", show_default=False, help="Where the page before ended, which printed it."),
    ] = None,
    include_inactive: options.IncludeInactive = False,
    as_json: options.AsJson = False,
    principal: options.As = None,
    *,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """List the memories that match a filter, a page at a time.

    If there are more, the cursor of the next page is printed on stderr, or is in the JSON: with it and the same other
    options, the command goes on, whatever was written meanwhile. The table shortens contents; --json does not.
    """
    with session(options.Target(dsn, namespace, schema, debug, principal)) as at:
        page = at.run(
            at.verbs.find(
                filter=json_of(filter, "--filter"),
                order_by=order_by.value,
                limit=limit,
                cursor=cursor,
                include_inactive=include_inactive,
            )
        )
    if as_json:
        print_json({"items": [record_data(record) for record in page], "cursor": page.cursor})
        return
    if not page.items:
        complain(f"no memories to list in namespace {namespace!r}")
        return
    print_records(page, status=include_inactive or "status" in (filter or ""))
    if page.cursor is not None:
        complain(f"there are more: --cursor {page.cursor}")
