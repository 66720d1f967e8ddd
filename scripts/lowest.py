"""Print pip constraints that pin every direct dependency in pyproject.toml to the lowest release it allows."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?>=(?P<lowest>[0-9.]+)")


def constraints(project: dict[str, object]) -> list[str]:
    """Return a line for each dependency of the package and of its extras."""
    dependencies = project["dependencies"]
    extras = project["optional-dependencies"]
    assert isinstance(dependencies, list)
    assert isinstance(extras, dict)
    lines = []
    for requirement in [*dependencies, *(one for extra in extras.values() for one in extra)]:
        match = _REQUIREMENT.match(requirement)
        if match is None:
            raise SystemExit(f"no lower bound in {requirement!r}")
        lines.append(f"{match['name']}=={match['lowest']}")
    return lines


if __name__ == "__main__":
    pyproject = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    sys.stdout.write("\n".join(constraints(pyproject["project"])) + "\n")
