"""Where a run of the tests keeps its files: in memory, where there is room for them, else where temporary files go.

Cloning a database copies 9 MB in hundreds of files, for almost every test. On a disk that takes longer than the test.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_NEEDED = 4 << 30  # bytes


def make_scratch() -> Path:
    """Make a folder for this run and have temporary files of it and of what it starts made in there.

    A TMPDIR that was chosen is kept to.
    """
    in_memory = "TMPDIR" not in os.environ and _room() >= _NEEDED
    folder = Path(tempfile.mkdtemp(prefix="pm-", dir=_MEMORY if in_memory else None))
    folder.chmod(0o711)  # root's server runs as another user, who must get through
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    return folder


def is_in_memory(folder: Path) -> bool:
    return folder.is_relative_to(_MEMORY)


def _room() -> int:
    """How many bytes may be written to memory; 0 where that is unknown."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        available = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
        return min(shutil.disk_usage(_MEMORY).free, available // 2, _allowance())
    except (OSError, StopIteration):
        return 0


def _allowance() -> int:
    """How much of its memory a container has left for us, half of it for processes; where it has a limit of its own."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        taken = int((group / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such file, or "max"
        return 1 << 62
    return (limit - taken) // 2
