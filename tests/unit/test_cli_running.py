"""What the commands do about Ctrl-C."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import signal, time, weakref
from contextlib import nullcontext
from postgres_memory.cli.running import interrupts_kept

class Thing: ...

with {kept}():
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    try:
        del thing
        time.sleep(2)
        print("slept on")
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize(
    ("kept", "outcome"), [("interrupts_kept", "interrupted"), ("nullcontext", "slept on")]
)
def test_an_interrupt_inside_a_callback_is_not_lost(kept: str, outcome: str) -> None:
    """Without the guard Python forgets it: the second case shows that the first one tests something."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(kept=kept)], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{outcome}\n"
    assert ("Traceback" in done.stderr) == (kept == "nullcontext")
