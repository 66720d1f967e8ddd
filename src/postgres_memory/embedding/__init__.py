"""Embedders: what turns a text into a vector."""

from __future__ import annotations

from .hashing import DIMENSIONS, HashEmbedder, hash_embedding
from .protocol import Embedder

__all__ = ["DIMENSIONS", "Embedder", "HashEmbedder", "hash_embedding"]
