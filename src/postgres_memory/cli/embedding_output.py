"""How far embedding is, and what became of it: what `reembed` and `embed-pending` share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import typer

from postgres_memory.errors import UsageError

from .output import complain, memories, print_json, progress, say
from .running import PROBLEM, Session, session

if TYPE_CHECKING:
    from postgres_memory.space_records import EmbedResult

    from .options import Target


@dataclass(slots=True)
class HowFar:
    """How many memories are done of how many."""

    done: int = 0
    total: int = 0

    def __str__(self) -> str:
        return f"stopped after {self.done} of {memories(self.total)}; called again, it goes on with the rest"


@contextmanager
def embedding(target: Target) -> Iterator[tuple[Session, Callable[[int, int], None]]]:
    """Lend the memory and what to call with the progress; say how far it was if the body ends before its time."""
    far = HowFar()
    with session(target, state=far.__str__) as at, progress("embedding") as show:

        def tell(done: int, total: int) -> None:
            far.done, far.total = done, total
            show(done, total)

        if at.embedder is None:
            raise UsageError("say by which embedder: --embedder, or POSTGRES_MEMORY_EMBEDDER")
        yield at, tell


def print_result(result: EmbedResult, *, as_json: bool) -> None:
    """Print what became of the memories, each that was refused on stderr; end with status 1 if there are such."""
    for failure in result.failed:
        complain(f"memory {failure.id!r}: {failure.reason}")
    if as_json:
        print_json(asdict(result))
    else:
        say(
            f"space {result.space!r}: {result.embedded} embedded, {result.failures} refused, "
            f"{result.changed} changed meanwhile, {result.pending} pending"
        )
    if result.failures:
        raise typer.Exit(PROBLEM)
