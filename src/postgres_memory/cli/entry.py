"""Where the process begins: it loads the commands, and ends by signals as they do, though they are not there yet."""

from __future__ import annotations

import signal
import sys
from types import FrameType

INTERRUPTED = 130

#: They end a command as Ctrl-C does: what it holds is given back, an embedded server of its own too.
_LIKE_CTRL_C = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def main() -> None:
    """Run what the arguments of the process say."""
    try:
        from .main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("postgres-memory: interrupted\n")
        sys.exit(INTERRUPTED)
    told = _told_by_signals()
    try:
        run()
    except SystemExit as ended:
        if told and ended.code == INTERRUPTED:
            sys.exit(128 + told[0])  # as a shell says of who was ended by it
        raise


def _told_by_signals() -> list[int]:
    """Have signals do what Ctrl-C does, and return a list to which they add their numbers."""
    told: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        told.append(number)
        as_ctrl_c = signal.getsignal(signal.SIGINT)
        if not callable(as_ctrl_c):
            raise KeyboardInterrupt
        as_ctrl_c(signal.SIGINT, frame)

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and hasattr(signal, "pthread_sigmask"):
        # In the background of a script, Ctrl-C is not meant for this process. It is kept from it another way, since
        # the handler of SIGINT is what ends an event loop in good order.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for one in _LIKE_CTRL_C:
        if signal.getsignal(one) is signal.SIG_DFL:
            signal.signal(one, end)
    return told
