"""What is asked of a walk over relations: the options that `related` and `graph` share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from postgres_memory.records import MemoryRelationType


class Direction(StrEnum):
    """Which relations to follow."""

    OUT = "out"
    IN = "in"
    BOTH = "both"


Depth = Annotated[int, typer.Option("--depth", min=1, help="How many steps to go at most.")]
WhichWay = Annotated[
    Direction, typer.Option("--direction", help="Follow relations from a memory, to it, or both.")
]
Types = Annotated[
    list[MemoryRelationType] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        show_default=False,
        help="Follow only this type: supports, contradicts, extends, precedes, follows or related; may be given "
        "several times.",
    ),
]
MinConfidence = Annotated[
    float, typer.Option("--min-confidence", help="The least product of confidences on a way, from 0 to 1.")
]
Limit = Annotated[int, typer.Option("--limit", min=0, help="At most how many memories.")]
