"""Synchronous classes made from asynchronous ones: each public member becomes one that waits for its answer.

What a type checker sees of them is `sync.pyi`, which scripts/make_sync_stub.py writes from the same classes.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from ._background import BackgroundLoop
from .errors import ClosedError, InvalidTypeError, UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from ._background import Call
    from ._connecting import Connecting

#: Members that make no sense here: the way to the synchronous class itself.
LEFT_OUT = frozenset({"sync"})


class Owned(Protocol):
    """What opens connections, and closes them."""

    _connecting: Connecting

    async def close(self) -> None:
        """Close what this object opened."""


class Synchronous:
    """The members of the class that a subclass names with ``of=``, for code without an event loop."""

    _made_from: ClassVar[dict[type, type[Synchronous]]] = {}
    _of: ClassVar[type]
    __signature__: ClassVar[inspect.Signature]

    _wrapped: Any
    _background: BackgroundLoop

    def __init_subclass__(cls, of: type | None = None) -> None:
        super().__init_subclass__()
        if of is None:
            return
        cls._of = of
        cls._made_from[of] = cls
        cls.__signature__ = inspect.signature(of)
        for name in dir(of):
            if not name.startswith("_") and name not in LEFT_OUT and not hasattr(cls, name):
                setattr(cls, name, _member(of, name))

    @classmethod
    def _around(cls, wrapped: object, background: BackgroundLoop) -> Self:
        self = cls.__new__(cls)
        self._wrapped = wrapped
        self._background = background
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._wrapped!r})"

    def _call(self, function: Callable[[Call], Awaitable[Any]]) -> Any:
        return self._given(self._background.call(function))

    def _given(self, result: Any) -> Any:
        """Return ``result``, or its synchronous form where it has one."""
        made = self._made_from.get(type(result))
        if made is not None:
            return made._around(result, self._background)
        if isinstance(result, AbstractAsyncContextManager):
            return self._block(result)
        if isinstance(result, AsyncIterator):
            return self._iterate(result)
        return result

    def _iterate(self, iterator: AsyncIterator[Any]) -> Iterator[Any]:
        try:
            while True:
                try:
                    item = self._call(lambda _: anext(iterator))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                with suppress(ClosedError):  # what it held ended with the connections
                    self._call(lambda _: close())

    @contextmanager
    def _block(self, manager: AbstractAsyncContextManager[Any]) -> Iterator[Any]:
        entered = []
        variables = Context()

        async def enter(_: Call) -> None:
            nonlocal variables
            entered.append(await manager.__aenter__())
            variables = copy_context()

        try:
            self._call(enter)
            with _taken_over(variables):
                yield self._given(entered[0])
        except GeneratorExit as error:
            # Nobody left the block: it is freed, perhaps at the interpreter's exit, when all is rolled back already.
            with suppress(ClosedError):
                self._leave(manager, error)
            raise
        except BaseException as error:
            # Entered, it is left, also where the wait for that was interrupted.
            if entered and self._leave(manager, error):
                return
            raise
        self._leave(manager, None)

    def _leave(self, manager: AbstractAsyncContextManager[Any], error: BaseException | None) -> bool:
        kind, trace = (None, None) if error is None else (type(error), error.__traceback__)
        return bool(self._call(lambda _: manager.__aexit__(kind, error, trace)))


class SynchronousOwner(Synchronous):
    """A synchronous class whose objects open connections: made with the arguments of the asynchronous one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._adopt(self._of(*args, **kwargs))

    @classmethod
    def _of_existing(cls, wrapped: Owned) -> Self:
        self = cls.__new__(cls)
        self._adopt(wrapped)
        return self

    def _adopt(self, wrapped: Owned) -> None:
        if wrapped._connecting.pool is not None:
            raise UsageError(
                "a borrowed pool belongs to the event loop that made it, so the synchronous classes cannot use it; "
                "give them a DSN"
            )
        self._wrapped = wrapped
        self._background = BackgroundLoop(wrapped.close)

    def close(self) -> None:
        """Close what this object opened. Idempotent; calls under way in other threads end first."""
        self._background.close()

    def __enter__(self) -> Self:
        self._call(lambda _: self._wrapped.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def _taken_over(variables: Context) -> Iterator[None]:
    """Give the body, in this thread, the context variables that were set for it in another: the current span."""
    set_ = [
        (variable, variable.set(value)) for variable, value in variables.items() if _differs(variable, value)
    ]
    try:
        yield
    finally:
        for variable, token in set_:
            with suppress(ValueError):  # a block that is left in another context than it was entered in
                variable.reset(token)


def _differs(variable: ContextVar[Any], value: object) -> bool:
    return copy_context().get(variable) is not value


def _member(of: type, name: str) -> object:
    """Return the synchronous form of one member of ``of``."""
    member = inspect.getattr_static(of, name)
    if isinstance(member, property):
        return property(lambda self: self._given(getattr(self._wrapped, name)), doc=member.__doc__)
    if not inspect.isfunction(member):
        raise TypeError(f"{of.__name__}.{name} has no synchronous form")
    return _shown_as(member, _waiting(member) if inspect.iscoroutinefunction(member) else _direct(member))


def _shown_as(function: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``method`` the name, docstring and signature of ``function``, without ``connection``."""
    signature = inspect.signature(function)
    parameters = [one for name, one in signature.parameters.items() if name != "connection"]
    takes_connection = len(parameters) < len(signature.parameters)

    @wraps(function)
    def shown(self: Synchronous, /, *args: Any, **kwargs: Any) -> Any:
        if takes_connection and "connection" in kwargs:
            raise InvalidTypeError(
                "connection", "belongs to the event loop that made it; here, use `with memory.transaction()`"
            )
        return method(self, *args, **kwargs)

    vars(shown)["__signature__"] = signature.replace(parameters=parameters)
    return shown


def _direct(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the form of a function that gives at once what is awaited later: a context manager, an iterator."""
    return lambda self, /, *args, **kwargs: self._given(function(self._wrapped, *args, **kwargs))


def _waiting(function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    signature = inspect.signature(function)
    in_caller = {
        name: treat
        for name, parameter in signature.parameters.items()
        if (treat := _treatment(name, str(parameter.annotation))) is not None
    }

    def method(self: Synchronous, /, *args: Any, **kwargs: Any) -> Any:
        if not in_caller:
            return self._call(lambda _: function(self._wrapped, *args, **kwargs))
        bound = signature.bind(self._wrapped, *args, **kwargs)
        treated = [
            (name, in_caller[name](bound.arguments[name])) for name in in_caller if name in bound.arguments
        ]

        def start(call: Call) -> Awaitable[Any]:
            bound.arguments.update((name, prepare(call)) for name, prepare in treated)
            return function(*bound.args, **bound.kwargs)

        return self._call(start)

    return method


def _treatment(name: str, annotation: str) -> Callable[[Any], Callable[[Call], Any]] | None:
    """Return what is done with an argument that belongs to the calling thread: read there, or called there."""
    if name == "progress":
        return _hear
    if "AsyncIter" in annotation:
        return _read
    return _read_at_once if "Iterable[" in annotation else None


def _hear(progress: Any) -> Callable[[Call], Any]:
    if not callable(progress):
        return lambda _: progress
    return lambda call: lambda *args: call.do_in_caller(partial(progress, *args))


def _read(items: Any) -> Callable[[Call], Any]:
    # A collection any thread may read; what is no iterable the verb refuses; a file it reads as it needs to.
    if isinstance(items, Collection) or not isinstance(items, Iterable) or hasattr(items, "read"):
        return lambda _: items
    return lambda call: call.items(items)


def _read_at_once(items: Any) -> Callable[[Call], Any]:
    read = tuple(items) if isinstance(items, Iterator) and not hasattr(items, "read") else items
    return lambda _: read
