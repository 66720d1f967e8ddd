"""What ends a process without its exit handlers, and would leave the embedded server running behind it.

SIGTERM and SIGHUP do, unless somebody says otherwise. Where nobody does, they are caught: what the process holds of
servers is given up first, and then it ends by the signal, as it would have.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

#: SIGINT is not among them: it raises KeyboardInterrupt, after which exit handlers run.
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def stop_at_signals(stop: Callable[[], bool]) -> None:
    """Run ``stop`` before a signal ends the process, where nobody else looks after that signal.

    ``stop`` returns False where the process is ending anyway, and is doing so already.

    Python lets only the main thread ask for it: called in another one, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        return

    def end(number: int, _frame: FrameType | None) -> None:
        # First of all, so that a second signal ends the process though a server takes its time.
        signal.signal(number, signal.SIG_DFL)
        ending = True
        try:
            ending = stop()
        finally:
            if ending:
                os.kill(os.getpid(), number)

    for one in ENDING:
        if signal.getsignal(one) is signal.SIG_DFL:
            signal.signal(one, end)
