"""``postgres-memory migrate``."""

from __future__ import annotations

from typing import Annotated

import typer

from postgres_memory._sql.schema_version import BASE, HEAD, REVISION, check_revision
from postgres_memory.errors import UsageError

from . import options
from .output import print_json, progress, say
from .running import PROBLEM, Session, principal_role_of, reported, session

_ROLLED_BACK = "the revision under way was rolled back; call it again"


def migrate(
    to: Annotated[
        str, typer.Option("--to", metavar="REVISION", help="Which revision; a schema past it stays as it is.")
    ] = HEAD,
    check: Annotated[
        bool,
        typer.Option("--check", help="Change nothing; exit status 1 if the schema is not at the newest."),
    ] = False,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL instead of running it; no database is asked.")
    ] = False,
    start: Annotated[
        str, typer.Option("--from", metavar="REVISION", help="With --sql: the revision the schema is at.")
    ] = BASE,
    principal_role: Annotated[
        str | None,
        typer.Option(
            "--principal-role",
            envvar="POSTGRES_MEMORY_PRINCIPAL_ROLE",
            show_default=False,
            help="The database role that principals act as, postgres_memory_principal unless said otherwise.",
        ),
    ] = None,
    as_json: options.AsJson = False,
    *,
    dsn: options.Dsn = None,
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Create the schema in the database, or bring it to the newest revision.

    Several processes may do this at once: one works, the others wait. Ctrl-C rolls back the revision under way; those
    before it stay. Without --dsn, POSTGRES_MEMORY_MIGRATION_DSN is asked first: the server itself, where the others
    name a pooler.
    """
    target = options.Target(dsn, "default", schema, debug, principal_role=principal_role)
    with reported(target):
        check_revision(to, "--to")
        check_revision(start, "--from", other=BASE)
        if (check and (sql or to != HEAD)) or (start != BASE and not sql):
            raise UsageError("--check goes with neither --sql nor --to, and --from only with --sql")
        if sql:
            _print_sql(target, start, to)
            return
    if check:
        with session(target) as at:
            _check(at, target, as_json=as_json)
        return
    with session(target, state=lambda: _ROLLED_BACK) as at, progress("migrating"):
        revision = at.run(at.memory.migrate(revision=to))
    if as_json:
        print_json({"schema": schema, "revision": revision})
    else:
        say(f"schema {schema!r} is at revision {revision}")


def _print_sql(target: options.Target, start: str, to: str) -> None:
    """Print the migration as a script for psql."""
    from postgres_memory._migration_sql import migration_sql

    script = migration_sql(
        schema=target.schema, principal_role=principal_role_of(target), start=start, revision=to
    )
    typer.echo(script, nl=False)


def _check(at: Session, target: options.Target, *, as_json: bool) -> None:
    schema, found, newest = target.schema, at.run(_revision(target)), REVISION
    up_to_date = found is not None and found >= newest
    if as_json:
        print_json({"schema": schema, "revision": found, "newest": newest, "up_to_date": up_to_date})
    else:
        state = "is not there" if found is None else f"is at revision {found}"
        say(f"schema {schema!r} {state}, the newest is {newest}")
    if not up_to_date:
        raise typer.Exit(PROBLEM)


async def _revision(target: options.Target) -> str | None:
    """Return the revision without the memory, which would bring the embedded server to the newest as it opens."""
    from postgres_memory._connecting import connect
    from postgres_memory._pooling import PoolOptions

    connecting = connect(target.dsn, target.schema, PoolOptions(0, 1), migration_dsn=target.dsn)
    try:
        return await connecting.revision()
    finally:
        await connecting.database.close()
