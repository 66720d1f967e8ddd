"""The hash embedding in Python, against the plain definition of flux's VectorMemory and against str.lower itself."""

from __future__ import annotations

import hashlib
import random
import re
import struct
import subprocess
import sys
import tracemalloc
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flux.memory.vector import _text_to_vector
from hypothesis import given, settings
from hypothesis import strategies as st

from postgres_memory._sql import _lowercase, functions
from postgres_memory.embedding import Embedder, HashEmbedder
from postgres_memory.embedding._shingles import ShingleCounter
from postgres_memory.embedding.hashing import (
    DIMENSIONS,
    _counter,
    hash_counts,
    hash_counts_many,
    hash_embedding,
    normalize,
)
from postgres_memory.embedding.unicode import differs_by_unicode_version

TRICKY = "aZ é.'-\t\nΣσςİıẞKÅ\u0301\u0345\u00ad\u200dʰǅ𐐀😀漢\U0010ffff\x00"
texts = st.text(max_size=200) | st.text(st.characters(max_codepoint=127)) | st.text(TRICKY)

EXAMPLES = [
    "",
    "a",
    "ab",
    "abc",
    "İİ",
    "abcabcabc" * 50,
    "The user prefers dark mode.",
    "👩‍👩‍👧‍👦 family 🇩🇪",
    "cafe\u0301 e\u0301e\u0301e\u0301",
    "ΟΔΥΣΣΕΥΣ, ΣΑΣ. Σ ΑΣ'",
    "\x00\x01\x7f\x80",
]

ALL_CHARACTERS = [chr(code) for code in range(1, sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF]
# What every Python from 3.11 on lower-cases as Unicode 14 does; on 3.11 itself that is everything.
BASELINE_CHARACTERS = [
    character
    for character in ALL_CHARACTERS
    if unicodedata.unidata_version == "14.0.0" or not differs_by_unicode_version(character + "Σ")
]


def by_definition(text: str) -> list[float]:
    return list(struct.unpack("32f", struct.pack("32f", *_text_to_vector(text))))


def counts_by_definition(text: str) -> list[int]:
    """The definition again, with a dictionary, for texts too long for flux's speed."""
    lowered = text.lower()
    known: dict[str, int] = {}
    counts = [0] * 32
    for start in range(len(lowered) - 2):
        shingle = lowered[start : start + 3]
        if shingle not in known:
            known[shingle] = int(hashlib.md5(shingle.encode()).hexdigest(), 16) % 32
        counts[known[shingle]] += 1
    return counts


class TestEmbedding:
    @given(texts)
    def test_equals_the_definition(self, text: str) -> None:
        assert hash_embedding(text) == by_definition(text)

    @pytest.mark.parametrize("text", EXAMPLES)
    def test_equals_the_definition_of(self, text: str) -> None:
        assert hash_embedding(text) == by_definition(text)
        assert hash_counts(text) == counts_by_definition(text)

    @given(st.lists(texts, max_size=12))
    def test_batch_equals_single_texts(self, batch: list[str]) -> None:
        rows = hash_counts_many(batch)
        assert rows.shape == (len(batch), DIMENSIONS)
        assert rows.tolist() == [hash_counts(text) for text in batch]

    def test_batch_of_every_length_and_order(self) -> None:
        batch = ["abcd"[:length] for length in (0, 3, 1, 1, 0, 2, 4, 0, 3, 2, 2, 1, 4, 1, 0)]
        for shift in range(len(batch)):
            turned = batch[shift:] + batch[:shift]
            assert hash_counts_many(turned).tolist() == [counts_by_definition(text) for text in turned]

    def test_too_short_texts_are_zero(self) -> None:
        for text in ("", "a", "ab", "é", "😀😀"):
            assert hash_embedding(text) == [0.0] * DIMENSIONS
        assert hash_counts_many(["", "a", "ab"]).tolist() == [[0] * DIMENSIONS] * 3
        assert hash_counts_many([]).shape == (0, DIMENSIONS)

    def test_lower_casing_may_make_a_text_long_enough(self) -> None:
        assert sum(hash_counts("İx")) == 1

    def test_long_texts(self) -> None:
        prose = "The quick brown fox, jumping over 42 lazy dogs. " * 22_000
        greek = "ΟΔΥΣΣΕΥΣ και Ärger, 東京 😀. " * 40_000
        for text in (prose, greek, "Σ" * 500_000):
            assert hash_counts(text) == counts_by_definition(text)
        batch = ["short", prose, "", greek, "shorter"]
        assert hash_counts_many(batch).tolist() == [counts_by_definition(text) for text in batch]

    @pytest.mark.parametrize("length", [65_535, 65_536, 65_537, 65_538, 65_539, 131_074, 131_075])
    def test_lengths_about_the_size_of_a_piece(self, length: int) -> None:
        text = ("abcdefghijk lmnopq, rst é" * 6_000)[:length]
        assert hash_counts(text) == counts_by_definition(text)
        assert hash_counts_many([text, "abc", text[:100]])[0].tolist() == counts_by_definition(text)

    def test_more_shingles_than_the_tables_hold(self) -> None:
        chooser = random.Random(7)
        text = "".join(chr(chooser.randrange(0x4E00, 0x9FFF)) for _ in range(400_000))
        assert hash_counts(text) == counts_by_definition(text)
        assert hash_counts(text[-1000:]) == counts_by_definition(text[-1000:])
        assert hash_counts(text[:1000]) == counts_by_definition(text[:1000])

    @pytest.mark.parametrize("text", ["abc\ud800", "\udfff12", "é\ud83dé"])
    def test_lone_surrogates_are_refused(self, text: str) -> None:
        with pytest.raises(UnicodeEncodeError):
            hash_counts(text)
        with pytest.raises(UnicodeEncodeError):
            hash_counts_many(["fine", text])

    @given(st.lists(st.integers(0, 2**24), min_size=32, max_size=32))
    def test_normalize_divides_in_double_and_rounds_to_float4(self, counts: list[int]) -> None:
        norm = sum(count * count for count in counts) ** 0.5 or 1.0
        expected = struct.unpack("32f", struct.pack("32f", *(count / norm for count in counts)))
        assert normalize(counts) == list(expected)


class TestEmbedder:
    async def test_embeds_in_order(self) -> None:
        batch = [f"memory number {number}" for number in range(700)] + EXAMPLES
        assert await HashEmbedder().embed(batch) == [hash_embedding(text) for text in batch]

    async def test_nothing_to_embed(self) -> None:
        assert await HashEmbedder().embed([]) == []

    def test_is_an_embedder(self) -> None:
        embedder: Embedder = HashEmbedder()
        assert isinstance(embedder, Embedder)
        assert (embedder.name, embedder.dimensions) == ("hash", 32)


class TestCosts:
    def test_importing_does_not_load_numpy(self) -> None:
        code = "import sys; from postgres_memory import hash_embedding as h; h('ab'); sys.exit('numpy' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_working_memory_does_not_grow_with_the_text(self) -> None:
        text = "dark mode, please. " * 250_000
        hash_counts("loads NumPy and makes the tables")
        tracemalloc.start()
        try:
            hash_counts(text)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 2 * len(text)  # the lower-cased copy, and pieces of 64 K characters

    def test_works_where_md5_is_refused_for_security(self, monkeypatch: pytest.MonkeyPatch) -> None:
        md5 = hashlib.md5

        def refusing(data: bytes = b"", *, usedforsecurity: bool = True) -> Any:
            if usedforsecurity:
                raise ValueError("[digital envelope routines] unsupported")
            return md5(data, usedforsecurity=False)

        expected = {text: by_definition(text) for text in EXAMPLES}
        monkeypatch.setattr(hashlib, "md5", refusing)
        _counter.cache_clear()
        assert {text: hash_embedding(text) for text in EXAMPLES} == expected

    def test_threads_share_the_tables(self) -> None:
        batch = [f"{chr(0x4E00 + number)}thread {number % 7} {number}" for number in range(400)]
        expected = [counts_by_definition(text) for text in batch]
        for _ in range(5):
            counter = ShingleCounter()
            with ThreadPoolExecutor(8) as pool:
                assert [row.tolist() for row in pool.map(counter.count, batch)] == expected


class TestCaseTables:
    """The tables that the SQL function is made from say what str.lower does."""

    def test_lower_case_forms(self) -> None:
        pairs = functions._pairs()
        ascii_and_dotted_i = {chr(code) for code in range(128)} | {"İ"}
        for character in set(BASELINE_CHARACTERS) - ascii_and_dotted_i:
            assert character.lower() == chr(pairs.get(ord(character), ord(character)))

    def test_neighbours_of_a_sigma(self) -> None:
        cased = {code for span in functions._spans(_lowercase.CASED) for code in range(span[0], span[1] + 1)}
        ignorable = {
            code
            for span in functions._spans(_lowercase.CASE_IGNORABLE)
            for code in range(span[0], span[1] + 1)
        }
        assert not cased & ignorable
        for character in BASELINE_CHARACTERS:
            code = ord(character)
            assert f".{character}Σ".lower().endswith("ς") == (code in cased)
            assert f"x{character}Σ".lower().endswith("ς") == (code in cased or code in ignorable)

    def test_newer_characters_are_recognised(self) -> None:
        for newer in (
            "\u1c89",
            "\ua7cb",
            "\ua7cc",
            "\ua7da",
            "\ua7dc",
            "\U00010d50",
            "\U00010d65",
            "\U0001df25",
        ):
            assert differs_by_unicode_version(f"known {newer}")
        assert differs_by_unicode_version("Σ\U0001171e")
        assert not differs_by_unicode_version("\U0001171e")
        assert not any(differs_by_unicode_version(text) for text in EXAMPLES)

    def test_baseline_is_what_unicode_14_assigns(self) -> None:
        unassigned = {text for text in ALL_CHARACTERS if unicodedata.category(text) == "Cn"}
        newer = {text for text in ALL_CHARACTERS if differs_by_unicode_version(text)}
        assert unassigned <= newer
        assert len(newer) == 829_834


class TestFunctionTexts:
    @pytest.mark.parametrize("make", [functions.hash_counts_function, functions.hash_embedding_function])
    def test_names_are_quoted_and_nothing_looks_like_a_parameter(self, make: Any) -> None:
        ddl = make('we"ird', "Ext")
        assert ddl.startswith('CREATE FUNCTION "we""ird"."hash_')
        assert 'RETURNS "Ext"."vector"' in ddl
        assert ddl.isascii()
        assert "%" not in ddl
        # SQLAlchemy's text() would take these for parameters.
        assert not re.search(r"(?<![:\w\\]):\w+(?!:)", ddl)

    @settings(max_examples=20)
    @given(st.sampled_from(["memory", "a b", "x'y"]), st.sampled_from(["public", "ext"]))
    def test_body_names_no_schema(self, schema: str, extension: str) -> None:
        body = functions.hash_counts_function(schema, extension).partition("$function$")[2]
        assert body == functions.hash_counts_function("other", "another").partition("$function$")[2]
