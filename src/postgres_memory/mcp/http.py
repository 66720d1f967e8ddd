"""Serving clients over streamable HTTP."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from ..errors import ConfigurationError
from .settings import PATH, is_everywhere, is_loopback

if TYPE_CHECKING:
    from mcp.server import Server
    from starlette.types import ASGIApp, Receive, Scope, Send

    from .settings import Address

#: How long calls under way may take once the process is told to end.
_GRACE_SECONDS = 2

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


async def serve_http(server: Server[Any], address: Address) -> None:
    """Serve everybody who reaches ``address`` and knows its token until the process is told to end."""
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH, transport_security=_hosts(address), host=address.host
    )
    if address.token is not None:
        app = BearerToken(app, address.token)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    http = _Server(config)
    with _listening(address) as listening:
        serving = asyncio.ensure_future(http.serve(sockets=[listening]))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            # Cancelled itself, it would leave its sessions open.
            http.should_exit = True
            await serving
            raise


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {address.host} port {address.port}: {error.strerror}"
        ) from error


class _Server(uvicorn.Server):
    """A server that leaves signals to those who run it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class BearerToken:
    """Lets through requests that carry the token, and answers all others itself."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan" or self._is_known(scope):
            await self._app(scope, receive, send)
            return
        headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b"a bearer token is needed\n"})

    def _is_known(self, scope: Scope) -> bool:
        """Compare in a time that tells nothing of where the two differ."""
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(b" ")
        return hmac.compare_digest(scheme.capitalize() + b" " + token.strip(), self._expected)


def _hosts(address: Address) -> TransportSecuritySettings:
    """Say by which names the server may be called: no web page can have a browser call it by a name of its own."""
    named = list(address.allowed_hosts)
    if is_loopback(address.host):
        named += _LOOPBACK
    if not is_everywhere(address.host):
        named.append(f"[{address.host}]" if ":" in address.host else address.host)
    hosts = [form for name in dict.fromkeys(named) for form in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
    )
