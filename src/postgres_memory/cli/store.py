"""``postgres-memory store``."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from postgres_memory._transfer.strict_json import NotJsonError, parse_json
from postgres_memory.errors import InvalidValueError

from . import options
from .running import session


def store(
    content: Annotated[
        str,
        typer.Argument(
            show_default=False, help="The text to remember; - reads all of standard input, as it is."
        ),
    ],
    metadata: Annotated[
        str | None, typer.Option("--metadata", metavar="JSON", help="A JSON object to keep with it.")
    ] = None,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Store one memory."""
    with session(options.Target(dsn, namespace, schema, debug)) as at:
        given = _parsed(metadata)
        text = _from_stdin() if content == "-" else content
        at.run(at.memory.store(text, given))
    typer.echo(f"stored in namespace {namespace!r}")


def _parsed(metadata: str | None) -> Any:
    if metadata is None:
        return None
    try:
        return parse_json(metadata)
    except NotJsonError as error:
        raise InvalidValueError("--metadata", str(error)) from None


def _from_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InvalidValueError("standard input", f"is not UTF-8 at byte {error.start + 1}") from None
