"""The options that several commands share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        metavar="URL",
        show_default=False,
        help="The database, as postgresql://… . Without it: POSTGRES_MEMORY_DSN, then DATABASE_URL, then the "
        "embedded server. Other users of the machine can see arguments: give a password in a variable.",
    ),
]
Namespace = Annotated[
    str,
    typer.Option("--namespace", envvar="POSTGRES_MEMORY_NAMESPACE", help="Whose memory, or which."),
]
Schema = Annotated[str, typer.Option("--schema", help="The database schema that holds the tables.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@dataclass(frozen=True, slots=True)
class Target:
    """Which memory a command works on, and how it reports errors."""

    dsn: str | None = field(repr=False)
    namespace: str
    schema: str
    debug: bool
    read_dsn: str | None = field(default=None, repr=False)
