"""What the peers of the suite find on questions with known answers: their own vector search, by the same model."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from questions import Conversation
from suite.crew import Crew, Member
from suite.server import Databases

Model = Callable[[Sequence[str]], np.ndarray]
Ranker = Callable[[str], Awaitable[Sequence[str]]]


class Peers:
    """Peers whose environments are there; ``absent`` says which are not, and why."""

    def __init__(self, names: list[str], dsn: str, model: Model) -> None:
        self._model = model
        self._databases = Databases(dsn)
        self._folder = tempfile.TemporaryDirectory(prefix="pm-bench-peers-")
        self._crew = Crew(names, Path(self._folder.name))
        self.absent = self._crew.absent

    @asynccontextmanager
    async def storing(self, conversation: Conversation) -> AsyncIterator[dict[str, Ranker]]:
        """Have each store the conversation in a database of its own; give how each ranks it."""
        texts = [turn.text for turn in conversation.turns]
        asked = [one.question for one in conversation.questions]
        vectors = {text: self._model([text])[0].tolist() for text in {*texts, *asked}}
        dimensions = len(next(iter(vectors.values())))
        items = [(text, {"topic": "", "i": number}) for number, text in enumerate(texts)]
        names = []
        try:
            for member in self._crew.members:
                name = await self._databases.make(member.name.replace("-", "_"), migrated=False)
                names.append(name)
                member("open", dsn=self._databases.dsn_of(name))
                if not member.in_process:  # that one has its own embedding
                    member("ask", method="know", dimensions=dimensions, vectors=vectors)
                member("enter", place="recall")
                member("load", items=items)
            yield {member.name: self._ranker(member, conversation) for member in self._crew.members}
            for member in self._crew.members:
                member("close")
        finally:
            for name in names:
                await self._databases.drop(name)

    def _ranker(self, member: Member, conversation: Conversation) -> Ranker:
        async def rank(question: str) -> list[str]:
            (found,) = member("asked", queries=[question], limit=10)["answers"]
            return [conversation.turns[number].id for number in found]

        return rank

    def dismiss(self) -> None:
        self._crew.dismiss()
        self._folder.cleanup()
