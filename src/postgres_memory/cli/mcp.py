"""``postgres-memory mcp``."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer

from postgres_memory.mcp.settings import (
    LOOPBACK,
    MAX_CHARACTERS,
    MAX_ITEMS,
    PORT,
    TOKEN_VARIABLE,
    Address,
    Bounds,
    Settings,
    Toolset,
    Transport,
)

from . import options
from .output import complain
from .running import session


def mcp(
    *,
    tools: Annotated[
        Toolset, typer.Option("--tools", metavar="TOOLS", help="Which to offer: memory or knowledge-graph.")
    ] = Toolset.MEMORY,
    transport: Annotated[
        Transport, typer.Option("--transport", help="How clients reach it.")
    ] = Transport.STDIO,
    principal: Annotated[
        str | None,
        typer.Option(
            "--principal",
            envvar="POSTGRES_MEMORY_PRINCIPAL",
            show_default=False,
            help="Who its clients are: they see and write what that principal may. Without it, everything.",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option("--host", help=f"Where to listen. Other machines need the token in {TOKEN_VARIABLE}."),
    ] = LOOPBACK,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=1, max=65535, help="Where to listen.")
    ] = PORT,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="A name clients call it by; may be repeated."),
    ] = None,
    max_items: Annotated[
        int, typer.Option("--max-items", min=1, max=1000, help="At most so many memories in one answer.")
    ] = MAX_ITEMS,
    max_characters: Annotated[
        int,
        typer.Option("--max-characters", min=1000, help="At most so many characters of texts in one answer."),
    ] = MAX_CHARACTERS,
    dsn: options.Dsn = None,
    namespace: options.Namespace = "default",
    schema: options.Schema = "memory",
    debug: options.Debug = False,
) -> None:
    """Serve a namespace to agents, by the Model Context Protocol.

    Over stdio, one client talks to it, which starts it; with --transport http, clients reach it at /mcp. The namespace
    and the principal are those named here: no client can name others. It ends when its client does, or at SIGTERM.
    """
    # Standard output belongs to the protocol.
    logging.basicConfig(stream=sys.stderr, level=logging.DEBUG if debug else logging.WARNING)
    with session(options.Target(dsn, namespace, schema, debug)) as at:
        address = None
        if transport is Transport.HTTP:
            address = Address(host, port, tuple(allow_host or ()), os.environ.get(TOKEN_VARIABLE) or None)
        settings = Settings(tools, principal, Bounds(max_items, max_characters), address)
        from postgres_memory.mcp.server import serve

        if address is not None:
            complain(f"serving namespace {namespace!r} at {address.url}")
        at.run(serve(at.memory, settings))
