"""``ConversationMemory``: a conversation's messages, searched as a memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from postgres_memory._json import decode_metadata, encode_metadata
from postgres_memory._validation import check_content, check_limit
from postgres_memory.protocol import entry_class

if TYPE_CHECKING:
    from postgres_memory.protocol import MemoryEntry, Session

# What chat APIs call a part that holds text; some leave the type out.
_TEXT_PARTS = ("text", "input_text", "output_text")


class ConversationMemory:
    """A memory over any ``Session``: ``search`` looks through its messages, ``store`` adds a user message."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def search(self, query: str, limit: int = 5) -> list[MemoryEntry]:
        """Return the first ``limit`` messages that contain ``query``, in order, upper and lower case alike.

        An empty query matches every message. Of a content that is a list of parts, the text parts count,
        joined; a message whose content is None, or anything but a str or a list, is passed over. An entry's
        metadata is ``{"role": …}``, "unknown" where the message has none; its score is 0.0. Raises
        InvalidTypeError or InvalidValueError for a bad query or limit.
        """
        wanted = check_content(query, "query").lower()
        room = check_limit(limit)
        found: list[MemoryEntry] = []
        if room == 0:
            return found
        entry = entry_class()
        for message in await self._session.get_messages():
            text = _text_of(message.get("content", ""))
            if text is not None and wanted in text.lower():
                found.append(entry(text, {"role": message.get("role", "unknown")}))
                if len(found) == room:
                    break
        return found

    async def store(self, content: str, metadata: dict[str, Any] | None = None) -> None:
        """Add a user message with this content, and a copy of ``metadata`` where there is any.

        Raises InvalidTypeError or InvalidValueError for what ``PostgresMemory`` could not store either.
        """
        message: dict[str, Any] = {"role": "user", "content": check_content(content)}
        copy = decode_metadata(encode_metadata(metadata))
        if copy:
            message["metadata"] = copy
        await self._session.add_messages([message])

    async def clear(self) -> None:
        """Remove all messages of the session."""
        await self._session.clear()


def _text_of(content: object) -> str | None:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    return "".join(_text_of_part(part) for part in content)


def _text_of_part(part: object) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and part.get("type", "text") in _TEXT_PARTS:
        text = part.get("text")
        return text if isinstance(text, str) else ""
    return ""
