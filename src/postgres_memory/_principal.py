"""Who is asking, where it is not the trusted backend: a principal, and the settings that bind a transaction to it."""

from __future__ import annotations

from dataclasses import dataclass

from ._sql.names import quote, quote_text
from ._sql.policies import EVERYONE, NAMESPACE_SETTING, PRINCIPAL_SETTING, SYSTEM
from ._validation import check_key
from .errors import ConfigurationError, DatabaseError, InvalidValueError, PostgresMemoryError

#: The role may not be taken on; it does not exist.
_NO_RIGHT, _NO_ROLE = "42501", "22023"

#: Returns the statements that bring back the settings of now; what is local to a transaction outlives its savepoints.
RESTORING = (
    "SELECT pg_catalog.format('SET LOCAL ROLE %L; "
    f"SET LOCAL {PRINCIPAL_SETTING} = %L; SET LOCAL {NAMESPACE_SETTING} = %L', "
    "pg_catalog.current_setting('role'), "
    f"coalesce(pg_catalog.current_setting('{PRINCIPAL_SETTING}', true), ''), "
    f"coalesce(pg_catalog.current_setting('{NAMESPACE_SETTING}', true), ''))"
)

#: Ends acting as a principal.
TRUSTED = "SET LOCAL ROLE NONE"


@dataclass(frozen=True, slots=True)
class Principal:
    """A principal of one namespace, and the database role whose rights it has."""

    name: str
    namespace: str
    role: str

    @property
    def settings(self) -> str:
        """The statements that bind the transaction they run in."""
        return (
            f"SET LOCAL ROLE {quote(self.role)}; "
            f"SET LOCAL {PRINCIPAL_SETTING} = {quote_text(self.name)}; "
            f"SET LOCAL {NAMESPACE_SETTING} = {quote_text(self.namespace)}"
        )

    def explained(self, error: DatabaseError) -> PostgresMemoryError:
        """Return what is to be done where the settings were refused, or the error itself."""
        role = quote(self.role)
        if error.sqlstate == _NO_ROLE:
            return ConfigurationError(
                f"the server has no role {role} for principals to act as; run: postgres-memory migrate"
            )
        if error.sqlstate == _NO_RIGHT:
            return ConfigurationError(
                f"this login may not act as the role {role}; an administrator grants it, from PostgreSQL 16 with: "
                f"GRANT {role} TO … WITH INHERIT FALSE, SET TRUE"
            )
        return error


def check_principal(value: object, argument: str = "name") -> str:
    """Return the name of a principal: a key that stands for one, and neither for everyone nor for nobody."""
    name = check_key(value, argument)
    if name in (SYSTEM, EVERYONE):
        raise InvalidValueError(argument, f"must not be {SYSTEM!r} or {EVERYONE!r}, which are no principal's")
    return name
