"""How an embedder is named on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from postgres_memory.cli.embedders import embedder_of
from postgres_memory.errors import ConfigurationError, InvalidValueError


def test_an_endpoint() -> None:
    pytest.importorskip("httpx")
    from postgres_memory.embedding.endpoint import EndpointEmbedder

    made = embedder_of(
        "openai:nomic-embed-text:latest,url=http://localhost:11434/v1,dimensions=64,name=nomic"
    )
    assert isinstance(made, EndpointEmbedder)
    assert (made.model, made.dimensions, made.name) == ("nomic-embed-text:latest", 64, "nomic")
    assert "localhost:11434" in repr(made)


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "openai",
        "openai:",
        "openai:,name=x",
        "ollama:m",
        "openai:m,",
        "openai:m,name",
        "openai:m,name=a,name=b",
        "openai:m,dimensions=many",
        "openai:m,dimensions=0",
        "openai:m,url=ftp://x",
        "openai:m,url=http://",
        "openai:m,url=http://[",
        "openai:m,url=http://me@x/v1",
        "openai:m,url=http://x/v1?api_key=s3cret",
        "openai:m,api_key=s3cret",
        "onnx:model.onnx",
        "onnx:/no/such/file,name=x",
    ],
)
def test_what_names_none_is_refused_without_a_secret(spec: str) -> None:
    pytest.importorskip("httpx")
    pytest.importorskip("onnxruntime")
    with pytest.raises(InvalidValueError) as refused:
        embedder_of(spec)
    assert "s3cret" not in str(refused.value)


def test_a_file_that_is_no_model_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "model.onnx").write_text("junk")
    with pytest.raises(InvalidValueError, match="no file"):
        embedder_of(f"onnx:{tmp_path / 'model.onnx'},name=x")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        embedder_of(f"onnx:{tmp_path / 'model.onnx'},name=x")
