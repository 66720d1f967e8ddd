"""One contestant in a process of its own: obeys lines of JSON on its standard input and answers in lines of JSON.

python -m suite.worker MODULE
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from contestants.interface import Contestant

from suite.texts import id_of, item, question

_AT_ONCE = 5_000
Inputs = list[tuple[Any, ...]]


def inputs_of(verb: str, first: int, count: int, **options: Any) -> Inputs:
    """Return the arguments of ``count`` calls of a verb."""
    numbers = range(first, first + count)
    limit, among = options.get("limit", 5), options.get("among", 1)
    makers: dict[str, Callable[[int], tuple[Any, ...]]] = {
        "store": item,
        "get": lambda n: (id_of(n * 7919 % among),),
        "related": lambda n: (id_of(n * 7919 % among),),
        "find": lambda _: (options.get("limit", 50),),
        "relate": lambda n: (id_of(n % among), id_of((n * 7919 + 1) % among), f"label {n}"),
        "recall": lambda n: (question(n),),
        "words": lambda n: (question(n),),
        "filtered": lambda n: (question(n), limit, options.get("topic")),
        "filtered_near": lambda n: (question(n), limit, options.get("topic")),
    }
    make = makers.get(verb.removeprefix("principal_"), lambda n: (question(n), limit))
    return [make(number) for number in numbers]


class Worker:
    """Does what it is told with one contestant."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant

    def hello(self) -> dict[str, Any]:
        one = self.contestant
        said = {"versions": one.versions(), "verbs": one.verbs(), "note": one.note}
        return said | {"in_process": one.in_process}

    async def open(self, dsn: str) -> None:
        await self.contestant.open(dsn)

    async def enter(self, place: str, near: bool = False) -> None:
        await self.contestant.enter(place, near=near)

    async def fill(self, first: int, count: int) -> None:
        for start in range(first, first + count, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, first + count))
            await self.contestant.fill([item(number) for number in numbers])

    async def load(self, items: list[tuple[str, dict[str, Any]]]) -> None:
        """Store what is given."""
        await self.contestant.fill([(content, metadata) for content, metadata in items])

    async def asked(self, queries: list[str], limit: int) -> dict[str, Any]:
        """Return what is nearest to each query that is given."""
        return {"answers": [list(await self._called("search", query, limit)) for query in queries]}

    async def index(self) -> dict[str, Any]:
        begin = time.perf_counter()
        await self.contestant.index()
        return {"seconds": time.perf_counter() - begin}

    async def bulk(self, first: int, count: int) -> dict[str, Any]:
        items = [item(number) for number in range(first, first + count)]
        await self.contestant.ready("bulk", items)
        gc.collect()
        begin = time.perf_counter()
        await self._called("bulk", items)
        return {"seconds": time.perf_counter() - begin, "count": count}

    async def block(
        self, verb: str, first: int, count: int, tasks: int = 1, seconds: float = 60.0, **options: Any
    ) -> dict[str, Any]:
        """Make ``count`` calls by so many ``tasks``; begin none after ``seconds``. Say how long each took, and all."""
        inputs = inputs_of(verb, first, count, **options)
        await self.contestant.ready(verb, inputs)
        own = getattr(self.contestant, "block", None)
        if own is not None:
            measured: dict[str, Any] = await own(verb, inputs, tasks)
            return measured
        gc.collect()
        return await self._timed(verb, inputs, tasks, seconds)

    async def _timed(self, verb: str, inputs: Inputs, tasks: int, seconds: float) -> dict[str, Any]:
        clock = time.perf_counter
        times: list[float] = []
        call = self._call(verb, threads=tasks > 1)
        waiting, begin = iter(inputs), clock()

        async def work() -> None:
            for arguments in waiting:
                before = clock()
                await call(*arguments)
                after = clock()
                times.append(after - before)
                if after - begin > seconds:
                    return

        await asyncio.gather(*(work() for _ in range(tasks)))
        return {"times": times, "seconds": clock() - begin}

    def _call(self, verb: str, *, threads: bool) -> Callable[..., Awaitable[Any]]:
        function: Callable[..., Awaitable[Any]] = getattr(self.contestant, verb)
        if not self.contestant.threaded:
            return function
        if threads:
            return lambda *arguments: asyncio.to_thread(function, *arguments)

        async def direct(*arguments: Any) -> Any:
            return function(*arguments)

        return direct

    async def _called(self, verb: str, *arguments: Any) -> Any:
        return await self._call(verb, threads=False)(*arguments)

    async def answers(self, verb: str, first: int, count: int, **options: Any) -> dict[str, Any]:
        """Return what a verb finds for each question, unmeasured."""
        inputs = inputs_of(verb, first, count, **options)
        await self.contestant.ready(verb, inputs)
        return {"answers": [list(await self._called(verb, *arguments)) for arguments in inputs]}

    async def ask(self, method: str, **options: Any) -> dict[str, Any]:
        """Call a method that only some contestants have."""
        answer = await getattr(self.contestant, method)(**options)
        return answer if isinstance(answer, dict) else {"answer": answer}

    async def resident(self) -> dict[str, Any]:
        gc.collect()
        return resident()

    async def close(self) -> None:
        await self.contestant.close()
        gc.collect()


def resident() -> dict[str, float]:
    """Return the resident set of this process and its peak, in megabytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    found = dict(line.split(":", 1) for line in lines if ":" in line)
    return {
        "now": int(found["VmRSS"].split()[0]) / 1024,
        "peak": int(found["VmHWM"].split()[0]) / 1024,
    }


async def obey(module: str) -> None:
    """Answer orders until there are no more. What a package prints goes to the standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(said: object) -> None:
        print(json.dumps(said), file=out, flush=True)

    try:
        worker = Worker(importlib.import_module(f"contestants.{module}").Contender())
        answer(worker.hello())
    except Exception as error:  # noqa: BLE001  (whatever a package cannot do here is said)
        answer({"error": told(error)})
        return
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        try:
            answer(await getattr(worker, order.pop("order"))(**order) or {})
        except Exception as error:  # noqa: BLE001  (told to the suite, which names it as a gap)
            traceback.print_exc()
            answer({"error": told(error)})


def told(error: Exception) -> str:
    said = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {said}"


def main(arguments: Sequence[str]) -> None:
    asyncio.run(obey(arguments[0]))
    sys.stdout.flush()
    os._exit(0)  # threads of a package's pool are not waited for


if __name__ == "__main__":
    main(sys.argv[1:])
