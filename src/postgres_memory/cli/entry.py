"""Where the process begins: it loads the commands, and ends by Ctrl-C as they do, though they are not there yet."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> None:
    """Run what the arguments of the process say."""
    try:
        from .main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("postgres-memory: interrupted\n")
        sys.exit(INTERRUPTED)
    run()
