"""How the process begins."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMAND = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["postgres-memory"]

#: Stands in for the first package that takes long to load.
SLOW = """
import signal, time
signal.raise_signal(signal.SIGINT)
time.sleep(10)
"""


def test_ctrl_c_while_the_commands_are_loaded_shows_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text(SLOW)
    module, name = COMMAND.split(":")
    path = os.pathsep.join(str(folder) for folder in (tmp_path, ROOT / "src"))
    done = subprocess.run(
        [sys.executable, "-c", f"from {module} import {name}; {name}()"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "postgres-memory: interrupted\n")
