"""Drawings of graphs: pure text out of what `related` returns."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postgres_memory.drawing import dot, graph_data, mermaid, text_tree
from postgres_memory.graph_records import Related, RelatedMemory, Relation
from postgres_memory.records import MemoryRecord, MemoryRelationType

SUPPORTS, CONTRADICTS, EXTENDS, PRECEDES, FOLLOWS, RELATED = MemoryRelationType


def reached(content: str, *steps: Relation, start: str = "a") -> RelatedMemory:
    path = [start]
    for step in steps:
        path.append(step.target_id if step.source_id == path[-1] else step.source_id)
    product = 1.0
    for step in steps:
        product *= step.confidence
    return RelatedMemory(MemoryRecord(id=path[-1], content=content), len(steps), product, tuple(path), steps)


START = MemoryRecord(id="a", content="Likes  tea\nand cake")
SUPPORT = Relation("a", "b", SUPPORTS, 0.9)
FROM = Relation("c", "b", EXTENDS, 0.8, {}, "derived")
AGAINST = Relation("a", "d", CONTRADICTS, 0.5, {"why": 1}, reversed=True)
AFTER = Relation("d", "e", FOLLOWS, 1.0, reversed=True)
SAMPLE = Related(
    (
        reached("bee", SUPPORT),
        reached("sea", SUPPORT, FROM),
        reached("", AGAINST, AFTER),
    ),
    truncated=False,
    has_more=False,
)


def test_the_tree_puts_ways_together_and_shows_where_arrows_point() -> None:
    assert text_tree(START, SAMPLE) == "\n".join(
        [
            "a: Likes tea and cake",
            "├─ supports 0.90 → b: bee",
            "│  └─ ← extends [derived] 0.80 c: sea",
            "└─ — contradicts 0.50 — d",
            "   └─ follows 1.00 → e",
        ]
    )


def test_mermaid_draws_each_relation_once() -> None:
    assert mermaid(START, SAMPLE) == "\n".join(
        [
            "flowchart LR",
            '    n0["a: Likes tea and cake"]',
            '    n1["b: bee"]',
            '    n2["c: sea"]',
            '    n3["d"]',
            '    n4["e"]',
            '    n0 -->|"supports 0.90"| n1',
            '    n2 -->|"extends #91;derived#93; 0.80"| n1',
            '    n0 ---|"contradicts 0.50"| n3',
            '    n3 -->|"follows 1.00"| n4',
        ]
    )


def test_dot_draws_symmetric_relations_without_an_arrow() -> None:
    lines = dot(START, SAMPLE).splitlines()
    assert (lines[0], lines[-1]) == ("digraph memory {", "}")
    assert '    n0 -> n3 [label="contradicts 0.50", dir=none];' in lines
    assert '    n2 -> n1 [label="extends [derived] 0.80"];' in lines


def test_data_has_everything_as_it_is_stored() -> None:
    data = graph_data(START, SAMPLE)
    assert json.loads(json.dumps(data)) == data
    assert data["start"]["content"] == START.content
    assert [memory["path"] for memory in data["memories"]] == [["a", "b"], ["a", "b", "c"], ["a", "d", "e"]]
    assert data["memories"][1]["path_confidence"] == pytest.approx(0.72)
    assert [
        (one["source_id"], one["relation_type"], one["target_id"], one["metadata"])
        for one in data["relations"]
    ] == [
        ("a", "supports", "b", {}),
        ("c", "extends", "b", {}),
        ("d", "contradicts", "a", {"why": 1}),
        ("e", "precedes", "d", {}),
    ]


def test_what_is_left_out_is_said() -> None:
    cut = Related((reached("bee", SUPPORT),), truncated=True, has_more=True)
    for draw, sign in ((text_tree, ""), (mermaid, "    %% "), (dot, "    // ")):
        lines = draw(START, cut).splitlines()
        assert f"{sign}there are more memories than the limit shows" in lines
        assert any(line.startswith(f"{sign}the walk was cut short") for line in lines)
    data = graph_data(START, cut)
    assert (data["truncated"], data["has_more"]) == (True, True)


def test_one_relation_read_both_ways_is_drawn_once() -> None:
    forth, back = Relation("a", "b", PRECEDES), Relation("a", "c", RELATED)
    ways = Related(
        (reached("b", forth), reached("c", forth, Relation("c", "b", RELATED)), reached("c", back)),
        truncated=False,
        has_more=False,
    )
    turned = Related(
        (reached("b", forth), reached("a", forth.inverse(), start="b")), truncated=False, has_more=False
    )
    assert mermaid(START, ways).count("|") == 6
    assert mermaid(START, turned).count("|") == 2


def test_long_contents_are_shortened_but_not_in_data() -> None:
    long = "word " * 400
    related = Related((reached(long, SUPPORT),), truncated=False, has_more=False)
    assert text_tree(START, related).endswith(f"b: {('word ' * 12)[:60]}…")
    assert graph_data(START, related)["memories"][0]["content"] == long
    hidden = Related((reached("a" + " " * 700 + "b", SUPPORT),), truncated=False, has_more=False)
    assert text_tree(START, hidden).endswith("b: a…")


anything = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(id_=anything, content=anything, label=anything)
def test_no_text_can_break_out_of_a_drawing(id_: str, content: str, label: str) -> None:
    step = Relation("a", f"_{id_}", SUPPORTS, label=label)
    related = Related((reached(content, step),), truncated=False, has_more=False)
    tree, chart, drawn = (draw(START, related) for draw in (text_tree, mermaid, dot))
    assert len(tree.split("\n")) == 2
    assert len(chart.split("\n")) == 4
    assert len(drawn.split("\n")) == 7
    for text in (tree, chart, drawn):
        assert not any(unicodedata.category(one) == "Cc" for one in text.replace("\n", ""))
    for line in chart.split("\n")[1:]:
        quoted = re.fullmatch(r'    n\d(?:\["(.*)"\]| -->\|"(.*)"\| n\d)', line)
        assert quoted
        assert not set('"[]|<>&`;') & set(re.sub(r"#\d+;", "", quoted[1] or quoted[2]))
    for line in drawn.split("\n")[3:-1]:
        assert re.fullmatch(r'    n\d(?: -> n\d)? \[label="(?:[^"\\]|\\\\|\\")*"\];', line)
