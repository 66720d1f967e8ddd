"""The contestants of a run, each a process in its own environment, and orders to them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from contestants import CONTESTANTS

BENCH = Path(__file__).parent.parent
ROOT = BENCH.parent
#: Seconds that an order may take.
PATIENCE = 7_200.0


class ContestantError(Exception):
    """A contestant could not do what it was told; the text says why."""


class Member:
    """A contestant's process."""

    def __init__(self, name: str, python: str, log: Path) -> None:
        self.name = name
        self._log = log.open("w")
        paths = os.pathsep.join((str(BENCH), str(ROOT / "src")))
        settings = {"PYTHONPATH": paths, "PYTHONHASHSEED": "0", "TOKENIZERS_PARALLELISM": "false"}
        self._process = subprocess.Popen(
            [python, "-m", "suite.worker", CONTESTANTS[name][0]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ | settings,
            cwd=log.parent,
        )
        self._read = b""

    def greet(self) -> Member:
        """Wait until it is there and says what it can do. Raises ContestantError."""
        try:
            hello = self._answer(PATIENCE)
        except ContestantError:
            self.dismiss()
            raise
        self.verbs: list[str] = hello["verbs"]
        self.in_process: bool = hello["in_process"]
        self.versions: str = hello["versions"]
        self.note: str = hello["note"]
        return self

    def __call__(self, order: str, patience: float = PATIENCE, **options: Any) -> dict[str, Any]:
        """Give an order, wait, and return the answer. Raises ContestantError."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"order": order, **options}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ContestantError(f"its process ended: {error}") from error
        return self._answer(patience)

    def _answer(self, patience: float) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._line(patience))
        if "error" in answer:
            raise ContestantError(answer["error"])
        return answer

    def _line(self, patience: float) -> bytes:
        assert self._process.stdout is not None
        end = time.monotonic() + patience
        while b"\n" not in self._read:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                self._process.kill()
                raise ContestantError(f"no answer in {patience:,.0f} s")
            piece = os.read(self._process.stdout.fileno(), 1 << 20)
            if not piece:
                raise ContestantError(f"its process ended with {self._process.wait()}; see {self._log.name}")
            self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        return line

    def dismiss(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()


class Crew:
    """All contestants that can be had, and why the others cannot."""

    def __init__(self, names: list[str], folder: Path) -> None:
        self.members: list[Member] = []
        self.absent: dict[str, str] = {}
        self._folder = folder
        coming: dict[str, Member] = {}  # all at once: some import for seconds
        for name in names:
            try:
                coming[name] = self._start(name)
            except ContestantError as failed:
                self.absent[name] = str(failed)
        for name, member in coming.items():
            try:
                self.members.append(member.greet())
            except ContestantError as failed:
                self.absent[name] = str(failed)

    def engage(self, name: str) -> Member:
        """Start one more process of a contestant. Raises ContestantError."""
        return self._start(name).greet()

    def _start(self, name: str) -> Member:
        environment = CONTESTANTS[name][1]
        python = sys.executable
        if environment is not None:
            python = str(ROOT / environment / "bin" / "python")
            if not Path(python).exists():
                raise ContestantError(f"there is no environment {environment}: make bench-peers")
        self._folder.mkdir(parents=True, exist_ok=True)
        return Member(name, python, self._folder / f"{name}.log")

    def dismiss(self) -> None:
        for member in self.members:
            member.dismiss()
