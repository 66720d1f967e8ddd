"""The migration as a script, for whoever runs it by hand or lets an administrator read it first."""

from __future__ import annotations

from io import StringIO

from ._migration_errors import explained
from ._sql.policies import PRINCIPAL_ROLE
from ._sql.schema_version import BASE, HEAD, check_revision
from .config import check_schema
from .migrations import alembic_config


def migration_sql(
    *,
    schema: str = "memory",
    principal_role: str = PRINCIPAL_ROLE,
    start: str = BASE,
    revision: str = HEAD,
) -> str:
    """Return the SQL that brings ``schema`` from revision ``start`` to ``revision``; no database is asked.

    It prepares the database too, where that is missing. Raises InvalidValueError for revisions that there are not.
    """
    from alembic import command

    check_revision(start, "start", other=BASE)
    check_revision(revision)
    config = alembic_config()
    config.output_buffer = written = StringIO()
    config.attributes["schema"] = check_schema(schema)
    config.attributes["principal_role"] = check_schema(principal_role, "principal_role")
    with explained(schema):
        command.upgrade(config, f"{start}:{revision}", sql=True)
    return written.getvalue()
