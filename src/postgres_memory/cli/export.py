"""``postgres-memory export``: a namespace as a file."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from postgres_memory._counted import counted
from postgres_memory.errors import InvalidValueError, PostgresMemoryError

from . import options
from .output import complain, memories, print_json, progress
from .running import session


def export(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", show_default=False, help="Where to write; - is standard output."),
    ],
    no_session_messages: Annotated[
        bool,
        typer.Option("--no-session-messages", help="Leave out the messages of the namespace's sessions."),
    ] = False,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Write the whole namespace as JSON Lines that import reads, with a checksum at the end.

    It is one snapshot, whatever is written meanwhile. A file gets its name only when it is whole. With --json what was
    written is printed, unless standard output is where it goes.
    """
    with session(options.Target(dsn, namespace, schema, debug)) as at, progress("exporting") as show:
        target = sys.stdout.buffer if file == "-" else file
        try:
            result = at.run(at.memory.export(target, session_messages=not no_session_messages, progress=show))
        except (PostgresMemoryError, BrokenPipeError):
            raise  # a timeout of the database is an OSError too; who reads a pipe may have enough
        except OSError as error:
            raise InvalidValueError("FILE", f"{file}: {error.strerror}") from error
    if as_json and file != "-":
        print_json(asdict(result))
    relations, messages = counted(result.relations, "relation"), counted(result.messages, "message")
    complain(f"{memories(result.memories)}, {relations}, {messages} exported")
