"""From a command to the memory and back: opening, closing, and errors as one line and an exit status."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import typer

from postgres_memory.errors import ConfigurationError, InvalidInputError, PostgresMemoryError, UsageError

from .output import complain

if TYPE_CHECKING:
    from postgres_memory.postgres import PostgresMemory

    from .options import Target

PROBLEM = 1
WRONG_USE = 2
INTERRUPTED = 130

_AGAIN_SECONDS = 0.05

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Session:
    """An event loop and the memory that lives on it; between two runs the command is free to block."""

    runner: asyncio.Runner
    memory: PostgresMemory

    def run(self, work: Coroutine[None, None, _T]) -> _T:
        """Return what ``work`` returns; Ctrl-C cancels it and raises KeyboardInterrupt."""
        return self.runner.run(work)


@contextmanager
def session(target: Target, *, state: Callable[[], str] | None = None) -> Iterator[Session]:
    """Lend the memory that the options name, not opened yet; close it, and report errors of the body.

    ``state`` adds to such a report how far the body came.
    """
    # Imported here, so that --help does not wait for it.
    from postgres_memory.postgres import PostgresMemory

    with reported(target), interrupts_kept(), asyncio.Runner() as runner:
        memory = PostgresMemory(
            target.dsn,
            namespace=target.namespace,
            schema=target.schema,
            read_dsn=target.read_dsn,
            migration_dsn=target.dsn,  # what was said here counts, not what the environment says
        )
        try:
            # Reported inside as well: closing may fail too, and must not hide what went wrong first.
            with reported(target, state=state):
                yield Session(runner, memory)
        finally:
            runner.run(memory.close())


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
        _complain_state(state)
        raise typer.Exit(_status_of(error)) from error
    except KeyboardInterrupt as error:
        complain("interrupted")
        _complain_state(state)
        raise typer.Exit(INTERRUPTED) from error


def _complain_state(state: Callable[[], str] | None) -> None:
    if state is not None:
        complain(state())


def _status_of(error: PostgresMemoryError) -> int:
    wrong_use = isinstance(error, InvalidInputError | ConfigurationError | UsageError)
    return WRONG_USE if wrong_use else PROBLEM
