"""A real HTTP server that speaks OpenAI's embeddings API."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.embedders import word_vector


class Endpoint:
    """What a request is answered with is for the test to say; what was asked is kept."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.begun: list[float] = []
        self.under_way = self.most_under_way = 0
        self.refuse: Callable[[int], tuple[int, dict[str, str]] | None] = lambda _: None
        self.spoil: Callable[[list[Any]], Any] = lambda data: {"data": data}
        self.delay = 0.0
        self.lock = threading.Lock()

    def answer(self, body: dict[str, Any], key: str | None) -> tuple[int, dict[str, str], Any]:
        with self.lock:
            self.requests.append(body)
            self.keys.append(key)
            self.begun.append(time.monotonic())
            number = len(self.requests)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        time.sleep(self.delay)
        with self.lock:
            self.under_way -= 1
        refused = self.refuse(number)
        if refused is not None:
            return refused[0], refused[1], {"error": {"message": "no, because"}}
        dimensions = body.get("dimensions", 8)
        data = [
            {"index": index, "embedding": word_vector(text, dimensions)}
            for index, text in enumerate(body["input"])
        ]
        return 200, {}, self.spoil(data[::-1])


@contextmanager
def served_endpoint(answering: Endpoint | None = None) -> Iterator[tuple[Endpoint, str]]:
    """Serve until the body ends; give what answers, and the URL."""
    served = answering or Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            assert self.path == "/v1/embeddings"
            status, headers, answer = served.answer(body, self.headers["authorization"])
            data = json.dumps(answer).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield served, f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
