"""``postgres-memory doctor``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from postgres_memory._counted import counted

from . import options
from .output import add_row, complain, print_json, print_table, progress, spelt_out, table
from .running import PROBLEM, session

if TYPE_CHECKING:
    from postgres_memory.doctor_records import Diagnosis

#: Only this command ends so: nothing fails yet, and something is to be done.
WARNING = 3

DOCTOR_STATUS = (
    "Exit status: 0 nothing worse than a notice; 3 at worst a warning; 1 a problem, a repair that failed, or no answer "
    "from the database; 2 the arguments or the configuration are wrong; 130 interrupted (143 by SIGTERM, "
    "129 by SIGHUP)."
)

_STYLES = {"ok": "green", "notice": "cyan", "warning": "yellow", "problem": "bold red"}


def doctor(
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Rebuild indexes that are not valid, drop what failed builds left, make what is missing; readers and "
            "writers go on meanwhile.",
        ),
    ] = False,
    read_dsn: Annotated[
        str | None,
        typer.Option(
            "--read-dsn", metavar="URL", show_default=False, help="The replica that is read from, if any."
        ),
    ] = None,
    as_json: options.AsJson = False,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Examine the database, and say what is wrong and exactly what puts it right.

    Nothing is changed without --repair, nobody is kept waiting, and no check takes long. What the login may not see is
    a notice that says so.
    """
    target = options.Target(dsn, namespace, schema, debug, read_dsn=read_dsn)
    state = (lambda: "what was half built, --repair puts right the next time") if repair else None
    with session(target, state=state) as at, progress("repairing" if repair else "examining"):
        found = at.run(at.memory.doctor(repair=repair))
    if as_json:
        print_json(_data(found))
    else:
        _print(found)
    for one in found.repairs:
        if one.error is not None:
            complain(f"could not repair: {one.statement} {one.error}")
    status = _status(found)
    if status:
        raise typer.Exit(status)


def _status(found: Diagnosis) -> int:
    if found.severity == "problem" or any(one.error is not None for one in found.repairs):
        return PROBLEM
    return WARNING if found.severity == "warning" else 0


def _data(found: Diagnosis) -> dict[str, object]:
    return {"ok": found.ok, "severity": found.severity, **asdict(found)}


def _print(found: Diagnosis) -> None:
    """Print a line for each check, then what to do; what is well needs no words but these."""
    from rich.text import Text

    made = table("check", "severity", "seen")
    for finding in found.findings:
        severity = Text(finding.severity, style=_STYLES[finding.severity])
        made.add_row(Text(finding.check), severity, Text(spelt_out(finding.seen)))
    print_table(made)
    fixes = fixes_of(found)
    if fixes:
        made = table("check", "fix")
        for fix, checks in fixes.items():
            add_row(made, ", ".join(checks), fix)
        print_table(made)
    for one in found.repairs:
        if one.error is None:
            typer.echo(f"repaired: {spelt_out(one.statement)}")
    worse = [counted(_count(found, severity), severity) for severity in ("problem", "warning", "notice")]
    typer.echo(f"{', '.join(worse)}, {_count(found, 'ok')} ok")


def fixes_of(found: Diagnosis) -> dict[str, list[str]]:
    """Return what there is to do, once each, with the checks that ask for it: of a schema that is not there, all do."""
    fixes: dict[str, list[str]] = {}
    for finding in found.findings:
        if finding.fix is not None:
            fixes.setdefault(finding.fix, []).append(finding.check)
    return fixes


def _count(found: Diagnosis, severity: str) -> int:
    return sum(finding.severity == severity for finding in found.findings)
