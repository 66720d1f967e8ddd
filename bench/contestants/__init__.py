"""The contestants: which file each is in, and which environment it runs in (None for the package's own)."""

from __future__ import annotations

PEERS, PEERS_2 = ".venv-bench-peers", ".venv-bench-peers-2"

#: By name: the module in this folder, and the environment.
CONTESTANTS: dict[str, tuple[str, str | None]] = {
    "ours": ("ours", None),
    "SAME": ("same", None),
    "FLOOR": ("floor", None),
    "LIMIT": ("limit", None),
    "flux": ("flux_memory", PEERS),
    "langgraph": ("langgraph_store", PEERS),
    "mem0": ("mem0_pgvector", PEERS),
    "langchain": ("langchain_store", PEERS),
    "llama-index": ("llamaindex_store", PEERS),
    "agno": ("agno_pgvector", PEERS),
    "crewai": ("crewai_store", PEERS_2),
    "strands": ("strands_store", PEERS_2),
}
#: Those that are compared with; the others are measures.
MEASURES = ("ours", "SAME", "FLOOR", "LIMIT")


def peers() -> list[str]:
    return [name for name in CONTESTANTS if name not in MEASURES]
