"""The progress bar: how much, how fast and how long still. Imported only where a person watches."""

from __future__ import annotations

from typing import Literal

from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

#: What is counted. An index is built in phases of their own units, whose rate says nothing.
Unit = Literal["number", "bytes", "parts"]


class Rate(ProgressColumn):
    """How much a second; how much so far where nobody knows of how much."""

    def __init__(self, unit: Unit) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """Return the text of the column."""
        so_far = "" if task.total is not None else f"{self._amount(task.completed)} "
        rate = "" if task.speed is None or self._unit == "parts" else f"{self._amount(task.speed)}/s"
        return Text(f"{so_far}{rate}")

    def _amount(self, number: float) -> str:
        return decimal(int(number)) if self._unit == "bytes" else f"{number:,.0f}"


def bar(unit: Unit) -> Progress:
    """Return a bar on stderr, gone when it is done."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        Rate(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
