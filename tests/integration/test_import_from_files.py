"""`import_from` on files: the graph of the reference MCP memory server, the data export of ChatGPT."""

from __future__ import annotations

import importlib.util
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from postgres_memory import MemoryStatus, PostgresMemory, SourceFailure, SourceResult
from postgres_memory._transfer.sources import mcp_json
from postgres_memory.errors import InvalidValueError

from .command import Outcome, caller, stored
from .peer_sources import MCP_JSON

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Database


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    return caller(monkeypatch, capsys)


def graph(tmp_path: Path, *lines: object) -> Path:
    file = tmp_path / "memory.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return file


def entity(name: str, *observations: str) -> dict[str, Any]:
    return {"type": "entity", "name": name, "entityType": "person", "observations": list(observations)}


def edge(source: str, label: str, target: str) -> dict[str, Any]:
    return {"type": "relation", "from": source, "to": target, "relationType": label}


async def test_mcp_json(memory: PostgresMemory, tmp_path: Path) -> None:
    file = graph(tmp_path, MCP_JSON)
    tried = await memory.import_from("mcp-json", file, dry_run=True)
    assert await memory.count() == 0
    assert await memory.import_from("mcp-json", file) == tried == SourceResult(read=4, stored=2, relations=2)
    ada, engine = await memory.find(order_by="created_at")
    assert (ada.id, ada.content) == (
        "entity:Ada Lovelace",
        'Ada Lovelace\nperson\nwrote the first program\nknew "Babbage"',
    )
    assert ada.metadata == {
        "name": "Ada Lovelace",
        "entityType": "person",
        "observations": ["wrote the first program", 'knew "Babbage"'],
    }
    assert engine.id == "entity:Analytical Engine"
    assert [(relation.relation_type, relation.label, relation.target_id) for relation in ada.relations] == [
        ("related", "programmed", "entity:Analytical Engine"),
        ("related", "wrote to", "entity:Charles Babbage"),
    ]
    mentioned = await memory.get("entity:Charles Babbage")
    assert (mentioned.status, mentioned.metadata) == (MemoryStatus.ARCHIVED, {"name": "Charles Babbage"})
    again = await memory.import_from("mcp-json", file)
    assert again == SourceResult(read=4, ignored=2, relations_ignored=2)
    assert await memory.import_from("mcp-json", file, dry_run=True) == again


async def test_a_name_that_was_only_mentioned_becomes_an_entity(
    memory: PostgresMemory, tmp_path: Path
) -> None:
    await memory.import_from("mcp-json", graph(tmp_path, edge("a", "knows", "b"), entity("a")))
    grown = graph(
        tmp_path, entity("a"), entity("b", "is new"), entity("b", "comes twice"), edge("a", "knows", "b")
    )
    assert await memory.import_from("mcp-json", grown) == SourceResult(
        read=4, stored=1, ignored=2, relations_ignored=1
    )
    b = await memory.get("entity:b")
    assert (b.status, b.content) == (MemoryStatus.ACTIVE, "b\nperson\nis new")
    # The owner's archived entity is no mention: it stays as it is.
    await memory.archive("entity:b")
    assert (await memory.import_from("mcp-json", grown)).stored == 0
    assert (await memory.get("entity:b")).status is MemoryStatus.ARCHIVED


async def test_bad_lines_of_a_graph_are_named(memory: PostgresMemory, tmp_path: Path) -> None:
    file = graph(
        tmp_path,
        entity("good", "twice", "twice"),
        "not json",
        "",
        [1],
        {"type": "note"},
        {**entity("x"), "observations": "x"},
        {**entity("x"), "name": 5},
        entity("n" * 1025),
        entity("nul \0"),
        edge("good", "is", "good"),
        edge("good", "l" * 256, "x"),
        edge("good", "knows", "better"),
        entity("long " + "ä" * 200),
    )
    tried = await memory.import_from("mcp-json", file, dry_run=True)
    result = await memory.import_from("mcp-json", file)
    assert result == tried
    assert (result.read, result.stored, result.relations, result.failures) == (12, 2, 1, 9)
    assert [failure.place for failure in result.failed] == [
        f"line {number}" for number in (2, 4, 5, 6, 7, 8, 9, 10, 11)
    ]
    good = await memory.get("entity:good")
    assert good.metadata["observations"] == ["twice"]


@pytest.mark.skipif(
    importlib.util.find_spec("postgres_memory.mcp") is None, reason="this checkout has no MCP server"
)
def test_entities_are_those_of_our_mcp_server() -> None:
    ours = importlib.import_module("postgres_memory.mcp.entities")
    for name in ("Ada", "ä" * 120, "ä" * 121, "x" * 1024):
        assert mcp_json.node_id(name) == ours.node_id(name)
        made = ours.Entity(name, "kind", ("one", "two"))
        read = mcp_json._entity({"name": name, "entityType": "kind", "observations": ["one", "two"]})
        assert (read["content"], read["metadata"]) == (ours.content_of(made), ours.metadata_of(made))
        assert mcp_json.mention_of(name)["metadata"] == ours.mention_of(name)
    assert mcp_json.RELATION is ours.RELATION


def message(id: str, role: str, *parts: Any, **more: Any) -> dict[str, Any]:
    """A message as exports have it."""
    return {
        "id": id,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": 1765671580.5,
        "update_time": None,
        "content": {"content_type": "text", "parts": list(parts)},
        "status": "finished_successfully",
        "end_turn": True,
        "weight": 1.0,
        "metadata": {"model_slug": "gpt-5-2"} if role == "assistant" else {},
        "recipient": "all",
        "channel": None,
        **more,
    }


def conversation(id: str, *branch: dict[str, Any], aside: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """A conversation whose messages follow each other; those aside answer the first."""
    mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    before = "root"
    for one in branch:
        mapping[one["id"]] = {"id": one["id"], "message": one, "parent": before, "children": []}
        before = one["id"]
    for one in aside:
        mapping[one["id"]] = {"id": one["id"], "message": one, "parent": branch[0]["id"], "children": []}
    return {
        "id": id,
        "conversation_id": id,
        "title": f"About {id}",
        "create_time": 1765671500.0,
        "current_node": before,
        "mapping": mapping,
    }


TALK = conversation(
    "c1",
    message("m0", "system", ""),
    message("m1", "user", "I moved to Oslo."),
    message("m2", "assistant", "User lives in Oslo.", recipient="bio"),
    message("m3", "tool", "Model set context updated."),
    message("m4", "assistant", "print(1)", recipient="python"),
    message("m5", "assistant", "Welcome to Oslo!", "", "Enjoy."),
    message(
        "m6", "user", {"content_type": "image_asset_pointer"}, "What is this?", content_type="multimodal_text"
    ),
    message("m7", "user", ""),
    message("m8", "assistant", content={"content_type": "thoughts", "thoughts": []}),
    message("m9", "user", "secret", metadata={"is_visually_hidden_from_conversation": True}),
    aside=(message("old", "user", "I moved to Osla."),),
)


def export(tmp_path: Path, files: dict[str, object]) -> Path:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content if isinstance(content, str) else json.dumps(content))
    return path


async def test_chatgpt_export(memory: PostgresMemory, tmp_path: Path) -> None:
    path = export(
        tmp_path,
        {
            "chat.html": "<html>",
            "conversations.json": [TALK],
            "user.json": {},
            "memory.json": [
                {
                    "id": "a",
                    "content": "User likes tea.",
                    "created_at": "2026-01-02T03:04:05Z",
                    "enabled": True,
                },
                {"content": "User is gone.", "enabled": False},
                {"content": "User has no id."},
            ],
        },
    )
    tried = await memory.import_from("chatgpt-export", path, dry_run=True)
    result = await memory.import_from("chatgpt-export", path)
    assert result == tried
    assert result == SourceResult(
        read=14,
        stored=6,
        skipped={
            "a call of a tool": 1,
            "a memory that is switched off": 1,
            "hidden in the conversation": 1,
            "no text": 1,
            "not text": 1,
            "on a branch that was edited or regenerated away": 1,
            "written by system": 1,
            "written by tool": 1,
        },
    )
    tea = await memory.get("chatgpt/memory/a")
    assert (tea.content, tea.tags, tea.created_at) == (
        "User likes tea.",
        ("saved-memory",),
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )
    saved = await memory.get("chatgpt/c1/m2")
    assert (saved.content, saved.tags, saved.thread_id) == ("User lives in Oslo.", ("saved-memory",), None)
    talk = [record for record in await memory.find(order_by="created_at") if record.thread_id == "c1"]
    assert [(record.id, record.content) for record in talk] == [
        ("chatgpt/c1/m1", "I moved to Oslo."),
        ("chatgpt/c1/m5", "Welcome to Oslo!\nEnjoy."),
        ("chatgpt/c1/m6", "What is this?"),
    ]
    assert talk[1].metadata == {
        "conversation_id": "c1",
        "title": "About c1",
        "role": "assistant",
        "model": "gpt-5-2",
    }
    assert talk[1].created_at == datetime.fromtimestamp(1765671580.5, UTC)
    again = await memory.import_from("chatgpt-export", path)
    assert (again.stored, again.ignored, again.read) == (0, 6, 14)


async def test_newer_exports_and_files_taken_out_of_one(memory: PostgresMemory, tmp_path: Path) -> None:
    one, two = (
        conversation(f"c{n}", message(f"m{n}", "user", f"text {n}"), message(f"a{n}", "assistant", "ok"))
        for n in (1, 2)
    )
    path = export(tmp_path, {"x/conversations-000.json": [one], "x/conversations-001.json": [two]})
    assert await memory.import_from("chatgpt-export", path) == SourceResult(read=4, stored=4)
    alone = tmp_path / "conversations.json"
    alone.write_text(json.dumps([one, two], indent=2))
    assert await memory.import_from("chatgpt-export", alone) == SourceResult(read=4, ignored=4)


async def test_bad_parts_of_an_export_are_named(memory: PostgresMemory, tmp_path: Path) -> None:
    good = conversation("c1", message("m1", "user", "good"))
    broken = conversation("c2", message("m2", "user", "fine"), message("m3", "user", "x", create_time="now"))
    broken["mapping"]["m2"]["message"]["id"] = None
    text = json.dumps([5, {"id": "c0"}, good, broken])[:-1] + ', {"id": "cut'
    path = export(tmp_path, {"conversations.json": text})
    result = await memory.import_from("chatgpt-export", path)
    assert (result.read, result.stored, result.failures) == (6, 1, 5)
    assert list(result.failed) == [
        SourceFailure("conversations.json element 1", "is not an object"),
        SourceFailure("conversations.json element 2", "a conversation needs an id and a mapping"),
        SourceFailure("conversations.json element 4 message m2", "a message needs an id"),
        SourceFailure("conversations.json element 4 message m3", "create_time is not a time"),
        SourceFailure("conversations.json", "the file ends before its array does"),
    ]


async def test_wrong_files_are_refused(memory: PostgresMemory, tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match=r"source: the zip holds no conversations\.json"):
        await memory.import_from("chatgpt-export", export(tmp_path, {"chat.html": ""}))
    with pytest.raises(InvalidValueError, match="source: must be a path for chatgpt-export"):
        await memory.import_from("chatgpt-export")
    with pytest.raises(InvalidValueError, match="only: is for sources that are tables"):
        await memory.import_from("mcp-json", tmp_path, only={"a": "b"})
    with pytest.raises(InvalidValueError, match="id_prefix: is not for mcp-json"):
        await memory.import_from("mcp-json", tmp_path, id_prefix="a")
    with pytest.raises(FileNotFoundError):
        await memory.import_from("mcp-json", tmp_path / "nothing")


def test_the_command_counts_and_names(
    run: Callable[..., Outcome], database: Database, tmp_path: Path
) -> None:
    file = str(graph(tmp_path, MCP_JSON, "not json"))
    dsn = ("--dsn", database.dsn)
    tried = run("import", "--from", "mcp-json", file, *dsn, "--dry-run")
    assert (
        tried.out == "5 read: 2 to store, 0 there already, 2 relations, 0 there already, 0 skipped, 1 bad\n"
    )
    assert stored(database.direct_dsn) == []
    outcome = run("import", "--from", "mcp-json", file, *dsn)
    assert outcome.status == 1
    assert (
        outcome.out == "5 read: 2 stored, 0 there already, 2 relations, 0 there already, 0 skipped, 1 bad\n"
    )
    assert outcome.err == "postgres-memory: line 5: not JSON: Expecting value at character 1\n"
    talk = str(export(tmp_path, {"conversations.json": [TALK]}))
    outcome = run("import", "--from", "chatgpt-export", talk, *dsn, "--namespace", "talk")
    assert outcome.status == 0
    assert outcome.out.splitlines()[:2] == [
        "11 read: 4 stored, 0 there already, 7 skipped, 0 bad",
        "  1 skipped: a call of a tool",
    ]
    assert [content for content, _ in stored(database.direct_dsn, "talk")] == [
        "I moved to Oslo.",
        "User lives in Oslo.",
        "Welcome to Oslo!\nEnjoy.",
        "What is this?",
    ]


def test_the_command_refuses_what_does_not_go_together(
    run: Callable[..., Outcome], database: Database, tmp_path: Path
) -> None:
    dsn = ("--dsn", database.dsn)
    for arguments, word in (
        ((), "FILE: is missing"),
        (("--dry-run", "x"), "--dry-run: goes with --from"),
        (("--only", "a=b", "x"), "--only: goes with --from"),
        (("--from", "mcp-json"), "FILE: is missing"),
        (("--from", "mcp-json", str(tmp_path / "no")), "No such file"),
        (("--from", "mem0", "x"), "FILE: is not for mem0"),
        (("--from", "mem0", "--only", "alice"), "--only: must be NAME=VALUE"),
        (("--from", "mem0"), "table: there is no table public.mem0"),
    ):
        outcome = run("import", *arguments, *dsn)
        assert outcome.status == 2
        assert word in outcome.err
        assert "Traceback" not in outcome.err
        assert "goes on" not in outcome.err
