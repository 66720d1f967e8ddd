"""An embedder on this machine: a transformer as an ONNX file and its tokenizer. Needs the extra ``onnx``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from .._validation import check_key, check_positive
from ..errors import ConfigurationError, InvalidValueError

try:
    import onnxruntime
    import tokenizers
except ModuleNotFoundError as error:
    raise ConfigurationError(
        f"the package {error.name} is missing: pip install 'postgres-memory[onnx]'"
    ) from error

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

Pooling = Literal["mean", "first"]


class OnnxEmbedder:
    """The model in the file ``model`` with the tokenizer in the file ``tokenizer`` (a ``tokenizer.json``).

    ``name`` is that of its embedding space: another model needs another one. A text is cut after ``max_tokens`` tokens.
    Where the model gives a vector for each token, ``pooling`` says which stands for the text: the ``"mean"``, or the
    ``"first"``; vectors get length 1 unless ``normalize`` is False. ``query_prefix`` and ``text_prefix`` are put before
    queries and texts, for models that were trained so. It works on a thread, with ``threads`` of the runtime's own.
    """

    def __init__(
        self,
        model: str | PathLike[str],
        tokenizer: str | PathLike[str],
        *,
        name: str,
        max_tokens: int = 256,
        pooling: Pooling = "mean",
        normalize: bool = True,
        query_prefix: str = "",
        text_prefix: str = "",
        batch_size: int = 32,
        threads: int | None = None,
    ) -> None:
        self.name = check_key(name, "name")
        if pooling not in get_args(Pooling):
            raise InvalidValueError("pooling", "must be 'mean' or 'first'")
        self._pooling = pooling
        self._normalize = normalize
        self._prefixes = (text_prefix, query_prefix)
        self._batch_size = check_positive(batch_size, "batch_size")
        options = onnxruntime.SessionOptions()
        if threads is not None:
            options.intra_op_num_threads = check_positive(threads, "threads")
        self._session = onnxruntime.InferenceSession(
            fspath(model), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = {one.name for one in self._session.get_inputs()}
        self._tokenizer = tokenizers.Tokenizer.from_file(fspath(tokenizer))
        self._tokenizer.enable_truncation(max_length=check_positive(max_tokens, "max_tokens"))
        self._tokenizer.enable_padding()
        self.dimensions = len(self._embed_now([""])[0])

    async def embed(self, texts: Sequence[str]) -> list[NDArray[float32]]:
        """Return one vector per text."""
        return await asyncio.to_thread(self._embed_now, [self._prefixes[0] + text for text in texts])

    async def embed_query(self, text: str) -> NDArray[float32]:
        """Return the vector of a query."""
        vectors = await asyncio.to_thread(self._embed_now, [self._prefixes[1] + text])
        return vectors[0]

    def _embed_now(self, texts: list[str]) -> list[NDArray[float32]]:
        # Texts of like length together, as each is padded to the longest beside it.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        vectors: dict[int, NDArray[float32]] = {}
        for start in range(0, len(order), self._batch_size):
            some = order[start : start + self._batch_size]
            vectors |= zip(some, self._run([texts[index] for index in some]), strict=True)
        return [vectors[index] for index in range(len(texts))]

    def _run(self, texts: list[str]) -> NDArray[float32]:
        encoded = self._tokenizer.encode_batch(texts)
        mask = np.asarray([one.attention_mask for one in encoded], np.int64)
        feed: dict[str, Any] = {
            "input_ids": np.asarray([one.ids for one in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        (output, *_) = self._session.run(
            None, {name: value for name, value in feed.items() if name in self._inputs}
        )
        pooled = self._pooled(np.asarray(output, np.float32), mask)
        if self._normalize:
            pooled /= np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
        return pooled

    def _pooled(self, output: NDArray[float32], mask: NDArray[Any]) -> NDArray[float32]:
        if output.ndim == 2:
            return output
        if self._pooling == "first":
            return output[:, 0]
        weights = mask[:, :, None].astype(np.float32)
        mean: NDArray[float32] = (output * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-9)
        return mean
