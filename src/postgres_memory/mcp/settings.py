"""What whoever runs the server decides, and no agent can change: which tools, for whom, how much, where."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from enum import StrEnum

from ..errors import ConfigurationError

TOKEN_VARIABLE = "POSTGRES_MEMORY_MCP_TOKEN"  # noqa: S105 - the name of a variable

LOOPBACK, PORT, PATH = "127.0.0.1", 8000, "/mcp"

#: What fits into the context of a model beside everything else: about ten thousand tokens.
MAX_ITEMS, MAX_CHARACTERS = 100, 40_000

#: Shorter ones can be guessed by trying.
_MIN_TOKEN = 16


class Toolset(StrEnum):
    """Which tools are offered."""

    MEMORY = "memory"
    KNOWLEDGE_GRAPH = "knowledge-graph"


class Transport(StrEnum):
    """How clients reach the server."""

    STDIO = "stdio"
    HTTP = "http"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one answer holds: at most ``items`` memories or entities, whose texts have at most ``characters``."""

    items: int = MAX_ITEMS
    characters: int = MAX_CHARACTERS


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server listens. ``allowed_hosts`` are the names, with or without a port, clients may call it by."""

    host: str = LOOPBACK
    port: int = PORT
    allowed_hosts: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.token is not None and (len(self.token) < _MIN_TOKEN or not self.token.isascii()):
            raise ConfigurationError(
                f"{TOKEN_VARIABLE} must hold at least {_MIN_TOKEN} characters, all of them ASCII"
            )
        if not is_loopback(self.host) and self.token is None:
            raise ConfigurationError(
                f"listening on {self.host!r}, which others can reach, needs a token: put one in {TOKEN_VARIABLE}, "
                "or leave out --host to listen on this machine only"
            )
        if is_everywhere(self.host) and not self.allowed_hosts:
            raise ConfigurationError(
                f"listening on {self.host!r} needs --allow-host NAME, the name clients call the server by "
                "(what else a Host header names is refused)"
            )

    @property
    def url(self) -> str:
        """Where clients on this machine reach it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{PATH}"


@dataclass(frozen=True, slots=True)
class Settings:
    """One server: ``principal`` is who all of its clients are, None for the trusted backend itself."""

    toolset: Toolset = Toolset.MEMORY
    principal: str | None = None
    bounds: Bounds = Bounds()
    address: Address | None = None

    def __post_init__(self) -> None:
        if self.toolset is Toolset.KNOWLEDGE_GRAPH and self.principal is not None:
            raise ConfigurationError(
                "--principal does not go with --tools knowledge-graph, where a name is one entity for everybody in the "
                "namespace; give each agent's graph a namespace of its own"
            )


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach what listens on ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_everywhere(host: str) -> bool:
    """Tell whether ``host`` stands for every address of this machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return host == ""
