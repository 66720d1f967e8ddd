"""Make the environments of the peers, beside the package's: `make bench-peers`.

What cannot be installed is named, with the reason, and the others are there nevertheless.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from contestants import PEERS, PEERS_2

BENCH = Path(__file__).parent
#: Two, since some of the peers ask for SQLAlchemy 2.1 and the others for less.
ENVIRONMENTS = {PEERS: "requirements-peers.txt", PEERS_2: "requirements-peers-2.txt"}


def install(python: Path, *what: str) -> str | None:
    """Install, and return why not."""
    command = [str(python), "-m", "pip", "install", "--quiet", *what]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def make(folder: Path, requirements: Path) -> list[str]:
    """Make an environment and return what could not be installed, one a line."""
    if not (folder / "bin" / "python").exists():
        venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    if install(python, "-r", str(requirements)) is None:
        return []
    lines = [line.strip() for line in requirements.read_text(encoding="utf-8").splitlines()]
    wanted = [line for line in lines if line and not line.startswith("#")]
    pinned = [line for line in wanted if line.startswith("sqlalchemy")]
    return [f"{line}: {why}" for line in wanted if (why := install(python, line, *pinned)) is not None]


def main() -> int:
    missing = []
    for name, requirements in ENVIRONMENTS.items():
        print(f"{name}: {requirements}", flush=True)
        missing += make(BENCH.parent / name, BENCH / requirements)
    for line in missing:
        print(f"not installed: {line}")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
