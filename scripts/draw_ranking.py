"""Draw docs/explanation/ranking.svg: the scores of the page's own example as bars of their parts.

Runs the examples of the page: python scripts/draw_ranking.py, with a database as for any program (README).
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from types import FunctionType
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "ranking.md"
PICTURE = PAGE.with_suffix(".svg")

_WIDTH, _LEFT, _ROW, _TOP, _UNIT = 980, 460, 34, 84, 500
_COLOURS = {"words": "#1b6ca8", "context": "#6fb1dd", "subject": "#e0a030", "thread": "#8a9a5b"}
_STYLE = "font-family='Helvetica, Arial, sans-serif' font-size='13' fill='#222'"


def draw(query: str, rows: Sequence[tuple[str, float, Mapping[str, float]]]) -> str:
    """Return an SVG picture of contents, their scores and the parts of those.

    The part of the question is negative; the bars of words and context are shortened by it.
    """
    height = _TOP + _ROW * len(rows) + 40
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height}' width='{_WIDTH}' height='{height}'>",
        f"<rect width='{_WIDTH}' height='{height}' fill='white'/>",
        f"<text x='16' y='28' {_STYLE} font-weight='bold'>{escape(query)}</text>",
        *_legend(),
        *_scale(height),
    ]
    for number, (content, score, parts) in enumerate(rows):
        lines += _row(_TOP + _ROW * number, content, score, parts)
    return "\n".join([*lines, "</svg>", ""])


def _legend() -> list[str]:
    lines, left = [], _LEFT
    for name, colour in _COLOURS.items():
        lines.append(f"<rect x='{left}' y='46' width='13' height='13' fill='{colour}'/>")
        lines.append(f"<text x='{left + 19}' y='57' {_STYLE}>{name}</text>")
        left += 95
    return lines


def _scale(height: int) -> list[str]:
    lines = []
    for tenth in range(0, 10, 2):
        left = _LEFT + _UNIT * tenth / 10
        lines.append(
            f"<line x1='{left:.0f}' y1='{_TOP - 8}' x2='{left:.0f}' y2='{height - 32}' stroke='#ddd'/>"
        )
        lines.append(
            f"<text x='{left:.0f}' y='{height - 14}' {_STYLE} text-anchor='middle'>{tenth / 10}</text>"
        )
    return lines


def _row(top: int, content: str, score: float, parts: Mapping[str, float]) -> list[str]:
    found = parts.get("words", 0) + parts.get("context", 0)
    kept = 1 + parts.get("question", 0) / found if found else 1
    lines = [f"<text x='{_LEFT - 12}' y='{top + 17}' {_STYLE} text-anchor='end'>{escape(content)}</text>"]
    left = float(_LEFT)
    for name, colour in _COLOURS.items():
        width = _UNIT * parts.get(name, 0) * (kept if name in ("words", "context") else 1)
        if width:
            lines.append(f"<rect x='{left:.1f}' y='{top}' width='{width:.1f}' height='24' fill='{colour}'/>")
        left += width
    lines.append(f"<text x='{left + 6:.1f}' y='{top + 17}' {_STYLE}>{score:.2f}</text>")
    return lines


async def example() -> str:
    """Run the examples of the page and return their picture."""
    names: dict[str, Any] = {}
    for source in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        code = compile(source, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        outcome = FunctionType(code, names)()
        if inspect.isawaitable(outcome):
            await outcome
    return picture_of(names)


def picture_of(names: Mapping[str, Any]) -> str:
    """Return the picture of a page that was run, from the names that it left."""
    return draw(names["query"], [(_said(hit.record), hit.score, hit.parts) for hit in names["hits"]])


def _said(record: Any) -> str:
    speaker = record.metadata.get("speaker")
    return f"{speaker}: {record.content}" if speaker else str(record.content)


if __name__ == "__main__":
    PICTURE.write_text(asyncio.run(example()), encoding="utf-8")
