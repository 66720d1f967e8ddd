"""From a command to the memory and back: opening, closing, and errors as one line and an exit status."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import typer

from postgres_memory.errors import (
    ConfigurationError,
    InvalidInputError,
    PostgresMemoryError,
    SchemaError,
    SpaceError,
    UsageError,
)

from .entry import INTERRUPTED
from .output import complain, spelt_out

if TYPE_CHECKING:
    from postgres_memory.embedding.accepting import AnyEmbedder
    from postgres_memory.postgres import PostgresMemory, Verbs

    from .options import Target

#: The environment variable that names the database role principals act as, where it is not the usual one.
PRINCIPAL_ROLE_VARIABLE = "POSTGRES_MEMORY_PRINCIPAL_ROLE"

PROBLEM = 1
WRONG_USE = 2

_AGAIN_SECONDS = 0.05

_T = TypeVar("_T")


@runtime_checkable
class Closeable(Protocol):
    """An embedder that holds connections."""

    async def close(self) -> None:
        """Close them."""


@dataclass(frozen=True, slots=True)
class Session:
    """An event loop and the memory that lives on it; between two runs the command is free to block.

    ``verbs`` are those of the memory, or of the principal that the command acts as.
    """

    runner: asyncio.Runner
    memory: PostgresMemory
    verbs: Verbs
    embedder: AnyEmbedder | None

    def run(self, work: Coroutine[None, None, _T]) -> _T:
        """Return what ``work`` returns; Ctrl-C cancels it and raises KeyboardInterrupt."""
        return self.runner.run(work)


@contextmanager
def session(target: Target, *, state: Callable[[], str] | None = None) -> Iterator[Session]:
    """Lend the memory that the options name, not opened yet; close it, and report errors of the body.

    ``state`` adds to such a report how far the body came.
    """
    # Imported here, so that --help does not wait for it.
    from .embedders import embedder_of

    with reported(target), interrupts_kept(), asyncio.Runner() as runner:
        embedder = None if target.embedder is None else embedder_of(target.embedder)
        memory = _memory_of(target, embedder)
        try:
            # Reported inside as well: closing may fail too, and must not hide what went wrong first.
            with reported(target, state=state):
                verbs = memory if target.principal is None else memory.as_principal(target.principal)
                yield Session(runner, memory, verbs, embedder)
        finally:
            runner.run(_close(memory, embedder))


def _memory_of(target: Target, embedder: AnyEmbedder | None) -> PostgresMemory:
    from postgres_memory.postgres import PostgresMemory

    return PostgresMemory(
        target.dsn,
        namespace=target.namespace,
        schema=target.schema,
        embedder=embedder,
        read_dsn=target.read_dsn,
        migration_dsn=target.dsn,  # what was said here counts, not what the environment says
        principal_role=principal_role_of(target),
    )


def principal_role_of(target: Target) -> str:
    """Return the database role that principals act as."""
    from postgres_memory._sql.policies import PRINCIPAL_ROLE

    if target.principal_role is not None:
        return target.principal_role
    return os.environ.get(PRINCIPAL_ROLE_VARIABLE) or PRINCIPAL_ROLE


async def _close(memory: PostgresMemory, embedder: object) -> None:
    try:
        await memory.close()
    finally:
        if isinstance(embedder, Closeable):
            await embedder.close()


async def to_its_end(work: Coroutine[None, None, _T]) -> _T:
    """Await ``work``; a first Ctrl-C lets it end before it counts, so that what was committed is known."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


class BatchByBatch:
    """Lets a first Ctrl-C end a verb after the batch under way, so that what was committed is known."""

    def __init__(self) -> None:
        self._stopping = False

    async def run(self, work: Coroutine[None, None, _T]) -> _T:
        """Await ``work``, which calls `between` after each batch."""
        task = asyncio.ensure_future(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._stopping = True
            with suppress(asyncio.CancelledError):
                await task
            raise

    def between(self) -> None:
        """End the verb here, if that was asked for."""
        if self._stopping:
            raise asyncio.CancelledError


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """See to it that no Ctrl-C is lost in the body.

    Where it arrives inside a callback of a weak reference or a finalizer, Python can only print and forget it. It is
    then sent again, a moment later.
    """
    before = sys.unraisablehook
    main = threading.main_thread().ident

    def hook(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_type is KeyboardInterrupt and main is not None:
            again = threading.Timer(_AGAIN_SECONDS, signal.pthread_kill, (main, signal.SIGINT))
            again.daemon = True
            again.start()
        else:
            before(lost)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def reported(target: Target, *, state: Callable[[], str] | None = None) -> Iterator[None]:
    """Turn the body's errors into a line on stderr and an exit status."""
    try:
        yield
    except PostgresMemoryError as error:
        if target.debug:
            traceback.print_exc()
        complain(str(error))
        if not _found_before(error):
            _complain_state(state)
        raise typer.Exit(_status_of(error)) from error
    except KeyboardInterrupt as error:
        complain("interrupted")
        _complain_state(state)
        raise typer.Exit(INTERRUPTED) from error


def _complain_state(state: Callable[[], str] | None) -> None:
    if state is not None:
        complain(state())


def _found_before(error: PostgresMemoryError) -> bool:
    """Say whether an error is of a kind that is found before anything is done."""
    return _status_of(error) == WRONG_USE or isinstance(error, SchemaError | SpaceError)


def _status_of(error: PostgresMemoryError) -> int:
    wrong_use = isinstance(error, InvalidInputError | ConfigurationError | UsageError)
    return WRONG_USE if wrong_use else PROBLEM


def confirm(question: str, *, yes: bool) -> None:
    """Go on if a person says so, or said so by --yes; else end the command with nothing done."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Nobody can be asked here: say so by --yes")
    try:
        agreed = typer.confirm(spelt_out(question), err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None
    if not agreed:
        complain("nothing was done")
        raise typer.Exit(PROBLEM)
