"""Every error the package raises, in one tree.

    PostgresMemoryError
    ├── InvalidInputError           an argument breaks a rule; nothing was written
    │   ├── InvalidTypeError        … by its type (also a TypeError)
    │   └── InvalidValueError       … by its value (also a ValueError)
    ├── ConfigurationError          no DSN, an unusable DSN or setting, a missing extra
    ├── EmbeddedServerError         the embedded PostgreSQL could not be started or stopped
    ├── UsageError                  the object is used where it cannot be
    │   ├── ClosedError             after close()
    │   └── EventLoopError          from another event loop than the one that opened it
    ├── NotFoundError               a memory, named by id, is not there (also a LookupError)
    ├── NotPermittedError           a principal may read a memory, and not do this to it; nothing was written
    ├── ConflictError               the change meets something that is already there; nothing was written
    │   ├── VersionConflictError    … a newer version of the memory
    │   └── IdempotencyConflictError  … the same idempotency key with another payload
    ├── ChangesOffError             the namespace has no change feed
    ├── ChangesLostError            changes behind the cursor are not there any more
    ├── EmbedderError               the embedder failed; what is embedded later waits
    │   └── InvalidEmbeddingError   … or returned what cannot be stored; nothing was written
    ├── SpaceError                  an embedding space is not there, or not in the status it must be in
    ├── SchemaError                 the database does not hold the schema this code needs
    │   ├── NotMigratedError        no schema at all
    │   ├── SchemaTooOldError       an older one
    │   └── MigrationError          migrating it failed (state, version, missing right)
    └── DatabaseError               the database refused or failed; carries the SQLSTATE
        ├── DatabaseUnavailableError  no connection, or it was lost
        ├── DatabaseTimeoutError      no answer in time (also a TimeoutError)
        │   └── PoolExhaustedError    … of a pool all of whose connections are in use; nothing was written
        └── OutcomeUnknownError       a write may have happened, and what is there cannot tell

Driver errors are translated in one place (``_driver_errors.py``) and kept as ``__cause__``. Each error carries what
it is about as attributes, so that callers need not read messages.
"""

from __future__ import annotations


class PostgresMemoryError(Exception):
    """Base of every error the package raises on purpose."""


class InvalidInputError(PostgresMemoryError):
    """An argument breaks a rule. Raised before anything is written.

    ``argument`` names it as the caller spelt it, with the path inside it where there is one
    (``metadata["when"][0]``).
    """

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(f"{argument}: {problem}")
        self.argument = argument
        self.problem = problem


class InvalidTypeError(InvalidInputError, TypeError):
    """An argument has a type that is not accepted."""


class InvalidValueError(InvalidInputError, ValueError):
    """An argument has a value that is not accepted."""


class ConfigurationError(PostgresMemoryError):
    """No usable database was named, or a setting or an optional package is missing."""


class EmbeddedServerError(PostgresMemoryError):
    """The embedded PostgreSQL could not be prepared, started or stopped."""


class UsageError(PostgresMemoryError):
    """The object is used in a way it cannot be used."""


class ClosedError(UsageError):
    """The object was closed."""


class EventLoopError(UsageError):
    """The object was opened on another event loop."""


class NotFoundError(PostgresMemoryError, LookupError):
    """A memory that was named is not in the namespace; ``namespace`` and ``ids`` say which."""

    def __init__(self, namespace: str, ids: tuple[str, ...], detail: str = "") -> None:
        shown = ", ".join(repr(id_) for id_ in ids)
        super().__init__(f"no memory {shown} in namespace {namespace!r}{detail}")
        self.namespace = namespace
        self.ids = ids


class NotPermittedError(PostgresMemoryError):
    """A principal may read the memory ``id`` and not do this to it. What it may not read is not found."""

    def __init__(self, principal: str, id: str, problem: str) -> None:
        super().__init__(f"memory {id!r}: principal {principal!r} {problem}")
        self.principal = principal
        self.id = id


class ConflictError(PostgresMemoryError):
    """The change meets something that is already there. Nothing was written. ``id`` names the memory in the way."""

    def __init__(self, message: str, *, namespace: str, id: str) -> None:
        super().__init__(message)
        self.namespace = namespace
        self.id = id


class VersionConflictError(ConflictError):
    """The memory was changed since it was read: ``expected`` is the version asked for, ``found`` the one there is."""

    def __init__(self, *, namespace: str, id: str, expected: int, found: int) -> None:
        super().__init__(
            f"memory {id!r} is at version {found}, not {expected}; read it again", namespace=namespace, id=id
        )
        self.expected = expected
        self.found = found


class IdempotencyConflictError(ConflictError):
    """The idempotency ``key`` was used for another payload; ``id`` is the memory stored under it."""

    def __init__(self, *, namespace: str, id: str, key: str) -> None:
        super().__init__(
            "this idempotency key was used with another payload; use a new key", namespace=namespace, id=id
        )
        self.key = key


class ChangesOffError(PostgresMemoryError):
    """The ``namespace`` has no change feed; `enable_changes` turns it on."""

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"namespace {namespace!r} has no change feed; "
            "enable_changes() turns it on, or the command postgres-memory enable-changes"
        )
        self.namespace = namespace


class ChangesLostError(PostgresMemoryError):
    """Changes behind the cursor ``since`` are not there any more, so that a reader would miss some.

    They were pruned, or the feed was turned off meanwhile, or the database is an older one than the cursor is of.
    """

    def __init__(self, namespace: str, since: str) -> None:
        super().__init__(
            f"changes of namespace {namespace!r} behind this cursor are not there any more (pruned, or the feed was "
            "turned off, or the database is an older copy): begin again with changes(), and read everything anew"
        )
        self.namespace = namespace
        self.since = since


class EmbedderError(PostgresMemoryError):
    """The embedder of embedding space ``space`` failed; ``__cause__`` is what it raised."""

    def __init__(self, space: str, problem: str) -> None:
        super().__init__(f"embedding space {space!r}: {problem}")
        self.space = space
        self.problem = problem

    @property
    def without_words(self) -> str:
        """What a log may hold: the kind of error, and not what an embedder says, which may repeat what it was given."""
        cause = self if self.__cause__ is None else self.__cause__
        return f"embedding space {self.space!r}: {type(cause).__name__}"


class InvalidEmbeddingError(EmbedderError):
    """The embedder returned what cannot be stored: not one vector per text, other dimensions, a NaN."""


class SpaceError(PostgresMemoryError):
    """The embedding space ``space`` is not there, or not in the status that the call needs."""

    def __init__(self, namespace: str, space: str, problem: str) -> None:
        super().__init__(f"embedding space {space!r} of namespace {namespace!r} {problem}")
        self.namespace = namespace
        self.space = space


class SchemaError(PostgresMemoryError):
    """The database does not hold the schema that this code needs.

    ``schema`` is the schema's name; ``found`` and ``needed`` are revisions (``found`` is None where there is none).
    """

    def __init__(
        self, message: str, *, schema: str, found: str | None = None, needed: str | None = None
    ) -> None:
        super().__init__(message)
        self.schema = schema
        self.found = found
        self.needed = needed


class NotMigratedError(SchemaError):
    """The schema was never created."""


class SchemaTooOldError(SchemaError):
    """The schema is older than the code."""


class MigrationError(SchemaError):
    """Migrating failed; the message says what stands in the way and what to do."""


class DatabaseError(PostgresMemoryError):
    """PostgreSQL refused or failed. ``sqlstate`` is its code, where it gave one; ``__cause__`` the driver's error.

    ``nothing_written`` is True where it is certain that the call changed nothing.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None, nothing_written: bool = True) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.nothing_written = nothing_written


class DatabaseUnavailableError(DatabaseError):
    """There is no connection, or it was lost under way."""


class DatabaseTimeoutError(DatabaseError, TimeoutError):
    """No answer came in time. Unless ``nothing_written``, a write may or may not have happened."""


class PoolExhaustedError(DatabaseTimeoutError):
    """No connection of the pool was free in time; the message says who holds them."""


class OutcomeUnknownError(DatabaseError):
    """The connection was lost while a write was under way, and whether it happened could not be found out in time.

    Read before writing it again.
    """

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message, sqlstate=sqlstate, nothing_written=False)
