"""What is measured, workload by workload. Names of workloads are those that `suite.targets` asks for."""

from __future__ import annotations

from contestants import MEASURES

from suite.staging import Run, Stage, say
from suite.texts import SHARES
from suite.truth import found_of

#: These read what ours filled.
_READERS = ("SAME", "LIMIT")
#: A larger load says no more of a slow peer, and takes minutes.
_BULK_OF_PEERS = 5_000
#: How far FLOOR looks into its index until it finds enough.
_EF_SEARCH = (40, 100, 200, 400)


async def stores(run: Run) -> None:
    """One store after the other, and many at once."""
    async with run.stage("store", "store") as stage:
        stage.each("enter", place="store")
        stage.take_turns("store, 1 client", "store", run.sizes.calls)
        for tasks in (16, 64):
            stage.take_turns(f"store, {tasks} tasks", "store", run.sizes.stores, tasks=tasks)


async def bulk(run: Run) -> None:
    """A load into an empty database, embedding included."""
    say("bulk")
    for number in range(run.sizes.rounds):
        async with run.stage("bulk", "bulk", apart=True) as stage:
            stage.each("enter", place="bulk")
            able = list(stage.members)
            turn = number % max(1, len(able))
            for member in able[turn:] + able[:turn]:
                of_peer = member.name not in MEASURES
                count = min(run.sizes.bulk, _BULK_OF_PEERS) if of_peer else run.sizes.bulk
                loaded = stage.attempt(member, "bulk", "bulk", first=0, count=count)
                if loaded is not None:
                    run.outcome.add("bulk", member.name, rate=count / loaded["seconds"])


async def fill(stage: Stage, count: int) -> None:
    for member in list(stage.members):
        if member.name not in _READERS:
            stage.attempt(member, stage.workload, "fill", first=0, count=count)
    await stage.tidy()


def judge(stage: Stage, workload: str, verb: str, count: int, topic: str | None = None) -> None:
    """Compare what is found with what should be. SAME finds what ours does, and takes ours' time once more."""
    questions = stage.run.sizes.questions
    skipped = ("LIMIT",) if verb == "search" else ("LIMIT", "SAME")
    for member in list(stage.members):
        if verb not in member.verbs or member.name in skipped:
            continue
        answers = stage.attempt(member, workload, "answers", verb=verb, first=0, count=questions, topic=topic)
        if answers is not None:
            found = found_of(answers["answers"], count, 0, among=topic)
            stage.run.outcome.note(workload, member.name, **found)


async def exact_searches(run: Run) -> None:
    """The nearest five, exactly."""
    for count in run.sizes.exact:
        workload = f"search exact, {count:,}"
        async with run.stage(workload, "search", peers=count <= run.sizes.peers_up_to) as stage:
            stage.each("enter", place="exact")
            await fill(stage, count)
            calls = run.sizes.calls if count <= 10_000 else run.sizes.slow_calls
            stage.take_turns(workload, "search", calls)
            judge(stage, workload, "search", count)


async def namespaces(run: Run) -> None:
    """The nearest five of a small namespace among many."""
    count, rows = run.sizes.namespaces, run.sizes.in_namespace
    workload = f"search in one of {count:,} namespaces of {rows:,}"
    async with run.stage(workload, "search", only=("ours", "SAME", "LIMIT")) as stage:
        stage.each("enter", place=f"n{count // 2}")
        stage.each("ask", only=("ours",), method="fill_namespaces", count=count, rows=rows)
        await stage.tidy()
        stage.take_turns(workload, "search", run.sizes.calls)


async def by_index(run: Run) -> None:
    """The nearest five by HNSW, with filters that keep less and less; and words with vectors."""
    for count in run.sizes.near:
        workload = f"search HNSW, {count:,}"
        async with run.stage(workload, "near", peers=count <= run.sizes.peers_up_to) as stage:
            stage.each("enter", place="near", near=True)
            await fill(stage, count)
            for member in list(stage.members):
                if member.name not in _READERS:
                    stage.attempt(member, workload, "index")
            await stage.tidy()
            tune(stage, workload, count)
            stage.take_turns(workload, "near", run.sizes.slow_calls)
            judge(stage, workload, "near", count)
            if count <= 100_000:
                filters(stage, count)
                hybrid(stage, count)


def tune(stage: Stage, workload: str, count: int) -> None:
    """Have FLOOR look as far into its index as it must to find 99 %."""
    for ef_search in _EF_SEARCH:
        stage.each("ask", only=("FLOOR",), method="tune", ef_search=ef_search)
        floor = next((member for member in stage.members if member.name == "FLOOR"), None)
        if floor is None:
            return
        questions = stage.run.sizes.questions
        answers = stage.attempt(floor, workload, "answers", verb="near", first=0, count=questions)
        if answers is None or found_of(answers["answers"], count, 0)["recall"] >= 0.99:
            break
        stage.run.outcome.note(workload, "FLOOR", ef_search=ef_search)


def filters(stage: Stage, count: int) -> None:
    calls = stage.run.sizes.slow_calls
    for topic, share in SHARES.items():
        workload = f"filter {100 * share:g} %, {count:,}"
        stage.take_turns(workload, "filtered", calls, topic=topic)
        judge(stage, workload, "filtered", count, topic)
        by_index = f"{workload}, by HNSW"
        stage.take_turns(by_index, "filtered_near", calls, topic=topic)
        judge(stage, by_index, "filtered_near", count, topic)


def hybrid(stage: Stage, count: int) -> None:
    calls = stage.run.sizes.slow_calls
    stage.take_turns(f"recall, {count:,}", "recall", calls)
    stage.take_turns(f"recall, {count:,}: words", "words", calls)
    floor = Stage(
        stage.run, stage.workload, [one for one in stage.members if one.name == "FLOOR"], stage.databases
    )
    floor.take_turns(f"recall, {count:,}: vectors", "near", calls, limit=100)


async def reads(run: Run) -> None:
    """One memory by its id, a page, a new relation, and all within three relations."""
    memories, edges = run.sizes.memories, run.sizes.edges
    async with run.stage("reads", "get", only=("ours", "SAME", "FLOOR")) as stage:
        stage.each("enter", place="graph")
        stage.each("ask", only=("ours", "FLOOR"), method="fill_graph", memories=memories, edges=edges)
        await stage.tidy()
        stage.take_turns("get", "get", run.sizes.calls, among=memories)
        stage.take_turns("find, 50", "find", run.sizes.calls, limit=50)
        stage.take_turns("relate", "relate", run.sizes.calls, among=memories)
        stage.take_turns(f"related, depth 3, {edges:,}", "related", run.sizes.slow_calls, among=memories)


async def principals(run: Run) -> None:
    """The same calls as the trusted backend and as a principal that reads a tenth."""
    count = run.sizes.shared
    async with run.stage("principal", "get", only=("ours",)) as stage:
        stage.each("enter", place="shared")
        stage.each("ask", method="fill_shared", count=count, owners=10)
        await stage.tidy()
        calls = {"store": run.sizes.calls, "search": run.sizes.slow_calls, "recall": run.sizes.slow_calls}
        for verb, times in (calls | {"get": run.sizes.calls}).items():
            compare(stage, verb, times, among=max(1, count // 10))
        for _ in range(run.sizes.rounds):
            for member in list(stage.members):
                block = stage.attempt(member, "ping", "block", verb="ping", first=0, count=run.sizes.calls)
                if block is not None:
                    run.outcome.add_block("ping", "round trip", block)


def compare(stage: Stage, verb: str, calls: int, **options: int) -> None:
    workload = f"{verb} as a principal"
    say(workload)
    for number in range(-1, stage.run.sizes.rounds):  # the first is not counted
        for member in list(stage.members):
            for name, called in (("backend", verb), ("principal", f"principal_{verb}")):
                first = (number + 1) * calls
                block = stage.attempt(
                    member, workload, "block", verb=called, first=first, count=calls, **options
                )
                if block is not None and number >= 0:
                    stage.run.outcome.add_block(workload, name, block)
