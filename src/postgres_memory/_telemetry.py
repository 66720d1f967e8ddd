"""What the application's OpenTelemetry is told: one span for each call of a verb, and metrics.

OpenTelemetry is imported only where the application imported it before, which it must to set it up; until it has, a
call costs a look at ``sys.modules``. Names follow the semantic conventions for database clients. Spans and metrics hold
names and numbers: no contents, queries, metadata, ids or messages of errors, which may repeat any of these.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from ._version import __version__
from .errors import DatabaseError

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.context import Context as Current
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
    from opentelemetry.trace import Span, TracerProvider

    from ._context import Context
    from ._pooling import Lending

ClassT = TypeVar("ClassT")
Verb = Callable[..., Awaitable[Any]]
Attributes = Mapping[str, str | int]

#: What is known of any database of ours.
SYSTEM: Attributes = {"db.system.name": "postgresql"}

_TRACE, _METRICS = "opentelemetry.trace", "opentelemetry.metrics"

#: The table that verbs of a class are about, where it is another than ``memories``; some are about no table.
_COLLECTIONS = {
    "RelationVerbs": "memory_relations",
    "SpaceVerbs": "memory_embeddings",
    "PostgresSession": "session_messages",
}
_OF_NO_TABLE = frozenset({"open", "close", "migrate", "check_isolation", "health", "erase", "transaction"})

_RETURNED = "db.response.returned_rows"
_ROWS = "postgres_memory.rows"
#: What a result that counts rows calls their number.
_COUNTED = ("stored", "embedded", "memories", "checked", "words")

_POOL = "db.client.connection.pool.name"
#: The conventions' own bounds, in seconds and in rows.
_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


class _Metrics:
    """The instruments of one meter."""

    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, description: str) -> Any:
            return meter.create_histogram(
                name, "s", description, explicit_bucket_boundaries_advisory=_SECONDS
            )

        def sizes(name: str, unit: str, description: str) -> Any:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=_SIZES)

        self.duration = seconds("db.client.operation.duration", "Duration of calls of verbs.")
        self.returned = sizes("db.client.response.returned_rows", "{row}", "Rows that a verb returned.")
        self.wait_time = seconds("db.client.connection.wait_time", "Time until a connection was free.")
        self.use_time = seconds("db.client.connection.use_time", "Time for which a connection was held.")
        self.timeouts = meter.create_counter(
            "db.client.connection.timeouts", "{timeout}", "Calls for which no connection was free in time."
        )
        self.retries = meter.create_counter("postgres_memory.retries", "{retry}", "What was tried again.")
        self.embedder = seconds("postgres_memory.embedder.duration", "Duration of calls of the embedder.")
        self.texts = meter.create_counter(
            "postgres_memory.embedder.texts", "{text}", "Texts given to the embedder."
        )
        self.batches = sizes("postgres_memory.coalesced.size", "{write}", "Writes that went as one.")
        for name, unit, numbers in (
            ("db.client.connection.count", "{connection}", _connections),
            ("db.client.connection.max", "{connection}", lambda pool: {"": pool.counts().max_size}),
            ("db.client.connection.pending_requests", "{request}", lambda pool: {"": pool.waiting}),
        ):
            meter.create_observable_up_down_counter(name, [_reading(numbers)], unit)


class _Signals:
    """Where spans and numbers go: what the application set up, either or both."""

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        self.tracers, self.meters = tracers, meters
        self.tracer = None if tracers is None else tracers.get_tracer("postgres_memory", __version__)
        self.metrics = None if meters is None else _Metrics(meters.get_meter("postgres_memory", __version__))


class _Process:
    """What all objects of this process share: where its telemetry goes, and the pools that are open."""

    signals: _Signals | None = None

    def __init__(self) -> None:
        self._pools: WeakSet[Lending] = WeakSet()
        # Two, since an SDK holds a lock of its own while it reads the pools, and takes it to make instruments.
        self._making, self._counting = Lock(), Lock()

    def looked_up(self) -> _Signals | None:
        """Return where telemetry goes; None where nobody set it up."""
        if _TRACE not in sys.modules and _METRICS not in sys.modules:
            return None
        tracers = _provider(_TRACE, "get_tracer_provider")
        meters = _provider(_METRICS, "get_meter_provider")
        if not self._are_known(tracers, meters):
            with self._making:  # instruments that are read are made once, or they would be counted twice
                if not self._are_known(tracers, meters):
                    none = tracers is None and meters is None
                    self.signals = None if none else _Signals(tracers, meters)
        return self.signals

    def _are_known(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> bool:
        if self.signals is None:
            return tracers is None and meters is None
        return self.signals.tracers is tracers and self.signals.meters is meters

    @property
    def metrics(self) -> _Metrics | None:
        """The instruments, once a call looked them up."""
        return None if self.signals is None else self.signals.metrics

    def watch(self, pool: Lending) -> None:
        """Read metrics from ``pool`` until `unwatch`, or until it is gone."""
        with self._counting:
            self._pools.add(pool)

    def unwatch(self, pool: Lending) -> None:
        """Read nothing from ``pool`` any more."""
        with self._counting:
            self._pools.discard(pool)

    def watched(self) -> list[Lending]:
        """Return the pools to read from."""
        with self._counting:
            return list(self._pools)


_process = _Process()
watch, unwatch = _process.watch, _process.unwatch


def _provider(module: str, getter: str) -> Any:
    """Return the provider that the application set, if any: not one of the API's own, which stand in until then."""
    get = getattr(sys.modules.get(module), getter, None)  # a module may be in the middle of its import
    provider = None if get is None else get()
    return None if type(provider).__module__.startswith(module) else provider


class _Call:
    """A call under way: its span, where there is one, is the current one inside."""

    def __init__(self, signals: _Signals, operation: str, collection: str | None, context: Context) -> None:
        self._signals = signals
        self._operation: dict[str, str | int] = {"db.operation.name": operation}
        if collection is not None:
            self._operation["db.collection.name"] = collection
        self._name = operation if collection is None else f"{operation} {collection}"
        self._context = context
        self._described = context.database.described
        self._is_block = operation == "transaction"
        self._span: Span | None = None
        self._before: Current | None = None
        self._inside: Current | None = None
        self._began = 0.0
        self._rows: dict[str, int] = {}

    def returned(self, result: object) -> None:
        """Take note of how many rows a result has, or counts."""
        self._rows = _rows_of(result)

    def __enter__(self) -> _Call:
        if self._signals.tracer is not None:
            from opentelemetry.context import attach, get_current
            from opentelemetry.trace import SpanKind, set_span_in_context

            attributes = {**self._described, **self._operation}
            attributes["postgres_memory.namespace"] = self._context.namespace
            kind = SpanKind.INTERNAL if self._is_block else SpanKind.CLIENT
            self._span = self._signals.tracer.start_span(self._name, kind=kind, attributes=attributes)
            self._before = get_current()
            self._inside = set_span_in_context(self._span, self._before)
            attach(self._inside)
        self._began = perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = perf_counter() - self._began
        failed = {} if error is None else _failure(error)
        if self._signals.metrics is not None and not self._is_block:
            attributes = {**self._context.database.described, **self._operation}
            self._signals.metrics.duration.record(seconds, attributes | failed)
            if _RETURNED in self._rows:
                self._signals.metrics.returned.record(self._rows[_RETURNED], attributes)
        if self._span is not None:
            self._end(self._span, failed)

    def _end(self, span: Span, failed: Attributes) -> None:
        from opentelemetry.context import attach, get_current
        from opentelemetry.trace import Status, StatusCode

        if self._described is not self._context.database.described:  # this call opened it
            span.set_attributes(self._context.database.described)
        span.set_attributes({**self._rows, **failed})
        if failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end()
        # By identity rather than by token: a block's end may run in another task than its beginning.
        if get_current() is self._inside and self._before is not None:
            attach(self._before)


def _failure(error: BaseException) -> dict[str, str]:
    if isinstance(error, DatabaseError) and error.sqlstate:
        return {"error.type": error.sqlstate, "db.response.status_code": error.sqlstate}
    return {"error.type": type(error).__qualname__}


def _rows_of(result: object) -> dict[str, int]:
    if isinstance(result, int):
        return {_ROWS: int(result)}
    items = getattr(result, "items", result)
    if isinstance(items, list | tuple):
        return {_RETURNED: sum(item is not None for item in items)}
    for name in _COUNTED:
        if isinstance(number := getattr(result, name, None), int):
            return {_ROWS: number}
    is_one = hasattr(result, "id") or hasattr(result, "source_id")
    return {_RETURNED: 1} if is_one else {}


def observed(verb: Verb) -> Verb:
    """Return ``verb``, a method of what has a ``_context``, with a span and a duration for each call."""
    name = verb.__name__
    of = _COLLECTIONS.get(verb.__qualname__.partition(".")[0], "memories")
    collection = None if name in _OF_NO_TABLE else of

    @wraps(verb)
    async def telling(self: Any, *args: Any, **kwargs: Any) -> Any:
        signals = _process.looked_up()
        if signals is None:
            return await verb(self, *args, **kwargs)
        with _Call(signals, name, collection, self._context) as call:
            result = await verb(self, *args, **kwargs)
            call.returned(result)
            return result

    return telling


def observed_verbs(cls: type[ClassT]) -> type[ClassT]:
    """Have every public coroutine method of ``cls``, its own and inherited, `observed` once."""
    for name, verb in inspect.getmembers(cls, inspect.iscoroutinefunction):
        if not name.startswith("_") and not hasattr(verb, "__wrapped__"):
            setattr(cls, name, observed(verb))
    return cls


@contextmanager
def observed_block(context: Context) -> Iterator[None]:
    """Give a block of `transaction` a span, whose children are the calls inside."""
    signals = _process.looked_up()
    if signals is None:
        yield
        return
    with _Call(signals, "transaction", None, context):
        yield


def described(database: str | None, schema: str, server: tuple[str, int] | None = None) -> Attributes:
    """Return what is told of a database: its name and the schema; host and port, if they are known."""
    found: dict[str, str | int] = {**SYSTEM, "db.namespace": f"{database}|{schema}" if database else schema}
    if server is not None:
        found["server.address"], port = server
        if port != 5432:
            found["server.port"] = port
    return found


def pool_name(about: Attributes) -> str:
    """Return how the conventions name a pool of the database that is described so."""
    port = about.get("server.port", 5432)
    server = f"{about['server.address']}:{port}/" if "server.address" in about else ""
    return f"{server}{about.get('db.namespace', '')}"


def _reading(
    numbers: Callable[[Lending], Mapping[str, int]],
) -> Callable[[CallbackOptions], list[Observation]]:
    """Return what reads ``numbers`` of each pool, by state, adding up those of pools of one name."""

    def read(_: CallbackOptions) -> list[Observation]:
        from opentelemetry.metrics import Observation

        sums: Counter[tuple[str, str]] = Counter()
        for pool in _process.watched():
            for state, number in numbers(pool).items():
                sums[pool.name, state] += number
        return [
            Observation(number, {_POOL: pool} | ({"db.client.connection.state": state} if state else {}))
            for (pool, state), number in sums.items()
        ]

    return read


def _connections(pool: Lending) -> dict[str, int]:
    counts = pool.counts()
    return {"used": counts.in_use, "idle": counts.size - counts.in_use}


def waited(pool: str, seconds: float) -> None:
    """Say how long a connection was waited for."""
    if (metrics := _process.metrics) is not None:
        metrics.wait_time.record(seconds, {_POOL: pool})


def waited_in_vain(pool: str) -> None:
    """Say that no connection was free in time."""
    if (metrics := _process.metrics) is not None:
        metrics.timeouts.add(1, {_POOL: pool})


def used(pool: str, seconds: float) -> None:
    """Say how long a connection was held."""
    if (metrics := _process.metrics) is not None:
        metrics.use_time.record(seconds, {_POOL: pool})


def retried(error: BaseException | None) -> None:
    """Say that something is tried again after ``error``."""
    if (metrics := _process.metrics) is not None:
        metrics.retries.add(1, {**SYSTEM, **({} if error is None else _failure(error))})


def coalesced(writes: int) -> None:
    """Say that so many writes of different calls went to the database as one."""
    if (metrics := _process.metrics) is not None:
        metrics.batches.record(writes, SYSTEM)


@contextmanager
def embedding(space: str, texts: int) -> Iterator[None]:
    """Say how long the body took to embed so many texts for a space."""
    began, about, failed = perf_counter(), {"postgres_memory.space": space}, {}
    try:
        yield
    except BaseException as error:
        failed = {"error.type": type(error).__qualname__}
        raise
    finally:
        if (metrics := _process.metrics) is not None:
            metrics.embedder.record(perf_counter() - began, about | failed)
            metrics.texts.add(texts, about)
