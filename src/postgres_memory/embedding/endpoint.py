"""An embedder behind HTTP: any endpoint that speaks OpenAI's embeddings API. Needs the extra ``endpoint``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from types import TracebackType
from typing import Any

from .._validation import check_key, check_positive, check_text
from ..errors import ConfigurationError, EmbedderError, InvalidEmbeddingError, InvalidValueError

try:
    import httpx
    import stamina
except ModuleNotFoundError as error:
    raise ConfigurationError(
        f"the package {error.name} is missing: pip install 'postgres-memory[endpoint]'"
    ) from error

#: What a server says when it may say something else later.
_TRY_AGAIN = {408, 409, 425, 429, 500, 502, 503, 504}
#: A server that asks for a longer pause is not waited for.
_MOST_SECONDS = 60.0
#: So much of what a server says about a refusal goes into the error.
_SAID = 300


class EndpointEmbedder:
    """Asks ``POST {url}/embeddings`` for the vectors of ``model``.

    ``dimensions`` is sent along for models that can shorten their vectors. The space gets the name of the model, with
    ``dimensions`` if they are given, unless ``name`` says another. At most ``batch_size`` texts go into a request,
    ``concurrency`` requests are under way at once, and ``requests_per_second`` are begun. A request that fails on the
    way, or that the server is too busy for, is tried up to ``attempts`` times within ``timeout`` seconds each, with
    growing pauses, or those that the server asks for. `close` it after use, or use it in ``async with``.
    """

    def __init__(
        self,
        model: str,
        *,
        url: str = "https://api.openai.com/v1",
        api_key: str | None = None,
        dimensions: int | None = None,
        name: str | None = None,
        batch_size: int = 128,
        concurrency: int = 4,
        requests_per_second: float | None = None,
        attempts: int = 6,
        timeout: float = 60.0,
    ) -> None:
        self.model = check_text(model, "model")
        self.dimensions = None if dimensions is None else check_positive(dimensions, "dimensions")
        default = model if dimensions is None else f"{model}:{dimensions}"
        self.name = check_key(default if name is None else name, "name")
        self._batch_size = check_positive(batch_size, "batch_size")
        self._attempts = check_positive(attempts, "attempts")
        self._requested = self.dimensions
        if requests_per_second is not None and not requests_per_second > 0:
            raise InvalidValueError("requests_per_second", "must be positive")
        self._pause = 0.0 if requests_per_second is None else 1 / requests_per_second
        self._next = 0.0
        self._turns = asyncio.Semaphore(check_positive(concurrency, "concurrency"))
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._url = f"{check_text(url, 'url').rstrip('/')}/embeddings"
        self._client = httpx.AsyncClient(headers=headers, timeout=timeout)

    def __repr__(self) -> str:
        return f"EndpointEmbedder({self.model!r}, url={self._url.removesuffix('/embeddings')!r})"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text. Raises EmbedderError with what the server said."""
        parts = [
            list(texts[start : start + self._batch_size]) for start in range(0, len(texts), self._batch_size)
        ]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._request(part)) for part in parts]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [vector for task in tasks for vector in task.result()]

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._client.aclose()

    async def __aenter__(self) -> EndpointEmbedder:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _request(self, texts: list[str]) -> list[list[float]]:
        body: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self._requested is not None:
            body["dimensions"] = self._requested
        try:
            async with self._turns:
                return self._vectors(await self._answer(body), len(texts))
        except httpx.HTTPStatusError as error:
            said = error.response.text[:_SAID]
            problem = f"the endpoint answered {error.response.status_code}: {said}"
            raise EmbedderError(self.name, problem) from error
        except httpx.TransportError as error:
            problem = f"the endpoint cannot be reached: {type(error).__name__}: {error}"
            raise EmbedderError(self.name, problem) from error

    async def _answer(self, body: dict[str, Any]) -> httpx.Response:
        async for attempt in stamina.retry_context(
            on=_again, attempts=self._attempts, timeout=None, wait_initial=0.2, wait_max=20.0
        ):
            with attempt:
                await self._begin()
                response = await self._client.post(self._url, json=body)
                return response.raise_for_status()
        raise AssertionError("unreachable")

    async def _begin(self) -> None:
        """Wait until the next request may begin."""
        now = monotonic()
        begins = max(now, self._next)
        self._next = begins + self._pause
        if begins > now:
            await asyncio.sleep(begins - now)

    def _vectors(self, response: httpx.Response, count: int) -> list[list[float]]:
        try:
            data = response.json()["data"]
            by_index = {item["index"]: item["embedding"] for item in data}
            return [by_index[index] for index in range(count)]
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidEmbeddingError(
                self.name, f"the endpoint answered {count} texts with something else than their embeddings"
            ) from error


def _again(error: Exception) -> bool | float:
    """Say whether a request is to be sent again, or after how many seconds."""
    if isinstance(error, httpx.TransportError):
        return True
    if not isinstance(error, httpx.HTTPStatusError) or error.response.status_code not in _TRY_AGAIN:
        return False
    try:
        seconds = float(error.response.headers["retry-after"])
    except (KeyError, ValueError):
        return True
    if not 0 <= seconds <= _MOST_SECONDS:
        return False
    return seconds or True  # a pause of 0 would pass for False
