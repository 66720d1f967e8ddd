"""Embedders as a command is told of them: ``KIND:MODEL,option=value,…``, and a secret in the environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from postgres_memory.errors import ConfigurationError, InvalidValueError, PostgresMemoryError

if TYPE_CHECKING:
    from postgres_memory.embedding.accepting import AnyEmbedder

KEY_VARIABLE = "POSTGRES_MEMORY_EMBEDDER_KEY"

#: Asked only for the endpoint that it belongs to.
_OPENAI_KEY_VARIABLE = "OPENAI_API_KEY"

_ARGUMENT = "--embedder"
_OPTIONS: dict[str, dict[str, Callable[[str], str | int]]] = {
    "openai": {"url": str, "dimensions": int, "name": str},
    "onnx": {
        "tokenizer": str,
        "name": str,
        "max_tokens": int,
        "pooling": str,
        "query_prefix": str,
        "text_prefix": str,
    },
}


def embedder_of(spec: str) -> AnyEmbedder:
    """Return the embedder that ``spec`` describes. Raises InvalidValueError, or ConfigurationError for what is missing.

    Nothing is asked of an endpoint yet; a file is loaded.
    """
    kind, colon, rest = spec.partition(":")
    model, *pairs = rest.split(",")
    if not colon or kind not in _OPTIONS or not model:
        raise InvalidValueError(
            _ARGUMENT, "must be openai:MODEL or onnx:FILE, with options such as ,name=SPACE"
        )
    options = dict(_option(kind, pair) for pair in pairs)
    if len(options) < len(pairs):
        raise InvalidValueError(_ARGUMENT, "says one option twice")
    return _endpoint(model, options) if kind == "openai" else _onnx(model, options)


def _option(kind: str, pair: str) -> tuple[str, str | int]:
    name, equals, value = pair.partition("=")
    known = _OPTIONS[kind]
    if not equals or name not in known:
        raise InvalidValueError(
            _ARGUMENT,
            f"{kind} takes the options {', '.join(known)}, as name=value; a key goes into {KEY_VARIABLE}",
        )
    try:
        return name, known[name](value)
    except ValueError:
        raise InvalidValueError(_ARGUMENT, f"{name} must be a whole number") from None


def _endpoint(model: str, options: dict[str, str | int]) -> AnyEmbedder:
    from postgres_memory.embedding.endpoint import EndpointEmbedder

    key = os.environ.get(KEY_VARIABLE)
    if "url" in options:
        _check_url(str(options["url"]))
    else:
        key = key or os.environ.get(_OPENAI_KEY_VARIABLE)
    made: Callable[..., AnyEmbedder] = EndpointEmbedder
    return made(model, api_key=key, **options)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidValueError(_ARGUMENT, "url must begin with http:// or https://")
    if parts.username is not None or parts.password is not None or parts.query:
        raise InvalidValueError(
            _ARGUMENT, f"url must hold no user, password or query; a key goes into {KEY_VARIABLE}"
        )


def _onnx(model: str, options: dict[str, str | int]) -> AnyEmbedder:
    from postgres_memory.embedding.onnx import OnnxEmbedder

    if "name" not in options:
        raise InvalidValueError(_ARGUMENT, "onnx needs name=SPACE, the name of its embedding space")
    tokenizer = str(options.pop("tokenizer", Path(model).with_name("tokenizer.json")))
    for file in (model, tokenizer):
        if not Path(file).is_file():
            raise InvalidValueError(_ARGUMENT, f"there is no file {file!r}")
    made: Callable[..., AnyEmbedder] = OnnxEmbedder
    try:
        return made(model, tokenizer, **options)
    except PostgresMemoryError:
        raise
    except Exception as error:  # the runtime and the tokenizer have errors of no common kind
        raise ConfigurationError(f"{_ARGUMENT}: the model cannot be loaded: {error}") from error
