"""A data export of ChatGPT: the zip as it was downloaded, or a JSON file out of it.

OpenAI publishes no schema. Read here is what exports of 2023 to 2026 hold: ``conversations.json`` (in newer ones
``conversations-000.json`` and so on), an array of conversations, each a tree of messages; and, where it is there,
``memories.json`` or ``memory.json``, an array of saved memories. What the model saved during a conversation is a
message of it to the tool ``bio``.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ...errors import InvalidValueError
from ..strict_json import NotJsonError, parse_line
from .found import Bad, Found, Item, NotAMemoryError, Skipped, derived_id, given, time_of
from .json_array import MAX_ELEMENT_BYTES, elements

PREFIX = "chatgpt/"

_CONVERSATIONS = re.compile(r"conversations(-\d+)?\.json")
_MEMORIES = re.compile(r"memor(y|ies)\.json")
_TEXTS = ("text", "multimodal_text")
_SAVED = ["saved-memory"]


def read_chatgpt(path: Path, prefix: str) -> Iterator[Found]:
    """Yield the saved memories, then the messages of each conversation in its order.

    Raises InvalidValueError for a file that holds neither, and OSError.
    """
    if not zipfile.is_zipfile(path):
        with path.open("rb") as stream:
            yield from _read_file(path.name, stream, prefix)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(
                filter(_is_read, archive.namelist()), key=lambda name: (not _of_memories(name), name)
            )
            if not names:
                raise InvalidValueError(
                    "source", "the zip holds no conversations.json: is it a data export of ChatGPT?"
                )
            for name in names:
                with archive.open(name) as stream:
                    yield from _read_file(name, stream, prefix)
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError) as error:
        raise InvalidValueError("source", f"the zip cannot be read: {error}") from error


def _is_read(name: str) -> bool:
    return _of_memories(name) or _CONVERSATIONS.fullmatch(name.rpartition("/")[2]) is not None


def _of_memories(name: str) -> bool:
    return _MEMORIES.fullmatch(name.rpartition("/")[2]) is not None


def _read_file(name: str, stream: IO[bytes], prefix: str) -> Iterator[Found]:
    read = _saved if _of_memories(name) else _conversation
    number = 0
    try:
        for text in elements(stream):
            number += 1
            place = f"{name} element {number}"
            if text is None:
                yield Bad(place, f"longer than {MAX_ELEMENT_BYTES} bytes")
                continue
            try:
                value = parse_line(text)
                if not isinstance(value, dict):
                    raise NotAMemoryError("is not an object")
                yield from read(place, value, prefix)
            except (NotJsonError, NotAMemoryError) as error:
                yield Bad(place, str(error))
    except NotAMemoryError as error:
        yield Bad(name, str(error))


def _saved(place: str, value: dict[str, Any], prefix: str) -> Iterator[Found]:
    content = value.get("content")
    if not isinstance(content, str):
        raise NotAMemoryError("the memory has no text in content")
    if value.get("enabled") is False:
        yield Skipped(place, "a memory that is switched off")
        return
    key = value.get("id")
    if not isinstance(key, str):
        key = hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()
    rest = {name: part for name, part in value.items() if name not in ("content", "created_at", "enabled")}
    values = given(
        id=derived_id(prefix, "memory", key),
        content=content,
        metadata=rest,
        tags=_SAVED,
        created_at=time_of(value.get("created_at"), "created_at"),
    )
    yield Item(place, values)


def _conversation(place: str, value: dict[str, Any], prefix: str) -> Iterator[Found]:
    """Yield what each message is: those on the branch that is shown in their order, then the others."""
    thread, nodes = value.get("conversation_id") or value.get("id"), value.get("mapping")
    if not isinstance(thread, str) or not isinstance(nodes, dict):
        raise NotAMemoryError("a conversation needs an id and a mapping")
    shown = _branch(nodes, value.get("current_node"))
    about = given(conversation_id=thread, title=value.get("title"))
    for node in (*shown, *(node for node in nodes if node not in shown)):
        entry = nodes[node]
        message = entry.get("message") if isinstance(entry, dict) else None
        if message is None and isinstance(entry, dict):
            continue  # a root, which holds no message
        at = f"{place} message {node}"
        try:
            yield _message(at, message, about, prefix, on_branch=node in shown)
        except NotAMemoryError as error:
            yield Bad(at, str(error))


def _branch(nodes: dict[str, Any], last: object) -> dict[str, None]:
    """Return the nodes from the root to the last one, which is what the user sees."""
    path: dict[str, None] = {}
    while isinstance(last, str) and last in nodes and last not in path:
        path[last] = None
        entry = nodes[last]
        last = entry.get("parent") if isinstance(entry, dict) else None
    return dict.fromkeys(reversed(path)) if path else dict.fromkeys(nodes)


def _message(place: str, message: object, about: dict[str, Any], prefix: str, *, on_branch: bool) -> Found:
    if not isinstance(message, dict) or not isinstance(message.get("id"), str):
        raise NotAMemoryError("a message needs an id")
    author, content, more = (message.get(name) or {} for name in ("author", "content", "metadata"))
    if not all(isinstance(part, dict) for part in (author, content, more)):
        raise NotAMemoryError("author, content and metadata of a message must be objects")
    role, recipient = author.get("role"), message.get("recipient", "all")
    saved = role == "assistant" and recipient == "bio"
    why = _why_not(role, recipient, content, more, saved=saved, on_branch=on_branch)
    if why is not None:
        return Skipped(place, why)
    text = "\n".join(part for part in content.get("parts") or () if isinstance(part, str) and part.strip())
    if not text:
        return Skipped(place, "no text")
    values = given(
        id=derived_id(prefix, about["conversation_id"], message["id"]),
        content=text,
        metadata={**about, **given(role=role, model=more.get("model_slug"))},
        thread_id=None if saved else about["conversation_id"],
        tags=_SAVED if saved else None,
        created_at=time_of(message.get("create_time"), "create_time"),
    )
    return Item(place, values)


def _why_not(
    role: object,
    recipient: object,
    content: dict[str, Any],
    more: dict[str, Any],
    *,
    saved: bool,
    on_branch: bool,
) -> str | None:
    """Return why a message is not remembered; None if it is."""
    if not on_branch:
        return "on a branch that was edited or regenerated away"
    if role not in ("user", "assistant"):
        return f"written by {role if role in ('system', 'tool') else 'neither user nor assistant'}"
    if more.get("is_visually_hidden_from_conversation") is True:
        return "hidden in the conversation"
    if recipient not in ("all", None) and not saved:
        return "a call of a tool"
    if content.get("content_type") not in _TEXTS:
        return "not text"
    if not isinstance(content.get("parts") or [], list):
        raise NotAMemoryError("parts of a message must be an array")
    return None
