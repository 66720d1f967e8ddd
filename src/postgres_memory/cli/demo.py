"""``postgres-memory demo``: what the package does, on a sample that ships with it."""

from __future__ import annotations

import shutil
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from postgres_memory.config import dsn_from_environment, parse_dsn

from . import options
from .importing import Tally, import_lines
from .output import memories
from .running import session
from .search import print_entries

if TYPE_CHECKING:
    from postgres_memory.postgres import PostgresMemory
    from postgres_memory.protocol import MemoryEntry

#: The demo empties it first: a name that nobody else has.
NAMESPACE = "postgres-memory-demo"

QUESTIONS = (
    "How does Mira take her coffee?",
    "When do we deploy the billing service?",
    "What is the customer in Lisbon allergic to?",
)


def demo(dsn: options.Dsn = None, schema: options.Schema = "memory", debug: options.Debug = False) -> None:
    """Import a small sample and search it, in a namespace of its own, which is emptied first.

    Uses the database that --dsn, POSTGRES_MEMORY_DSN or DATABASE_URL name and migrates it; else the embedded server.
    """
    with session(options.Target(dsn, NAMESPACE, schema, debug)) as at:
        named = dsn_from_environment() if dsn is None else parse_dsn(dsn)
        typer.echo("Starting the embedded PostgreSQL …" if named is None else f"Using {named} …")
        at.run(at.memory.migrate())
        at.run(at.memory.clear())
        tally = Tally()
        with resources.files(__package__).joinpath("sample.jsonl").open("rb") as sample:
            import_lines(at, sample, tally)
        typer.echo(f"Imported {memories(tally.stored)} into namespace {NAMESPACE!r}.")
        answers = at.run(_answers(at.memory))
    for question, entries in zip(QUESTIONS, answers, strict=True):
        typer.echo()
        print_entries(entries, title=question)
    _print_next()


async def _answers(memory: PostgresMemory) -> list[list[MemoryEntry]]:
    return [await memory.search(question, limit=3) for question in QUESTIONS]


def _print_next() -> None:
    command = _command()
    typer.echo(
        "\nThe score compares wording, three letters at a time, not meaning: the nearest is often right, the rest is "
        "noise.\n\n"
        "Try next:\n"
        f'  {command} search "Who feeds the cat when we are away?" --namespace {NAMESPACE}\n'
        f'  {command} store "Mira moved to Porto." --metadata \'{{"source": "me"}}\'\n'
        f'  {command} search "Where does Mira live?"\n'
        f"  {command} verify --all-namespaces"
    )


def _command() -> str:
    """Return how this command can be called again from here."""
    called = Path(sys.argv[0])
    if called.name != "postgres-memory" or shutil.which("postgres-memory") == str(called.absolute()):
        return "postgres-memory"
    here = Path.cwd()
    return str(called.relative_to(here)) if called.is_relative_to(here) else str(called)
