"""A hook of MkDocs: links that lead out of docs/, to files of the repository, lead to them there."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

_REPOSITORY = Path(__file__).parent.parent
_LINK = re.compile(r"\]\((\.\./[^)#]*)(#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Return the page with such links made absolute. One to a file that is not there is left for MkDocs to refuse."""
    folder = posixpath.dirname(page.file.src_uri)

    def led(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, link[1]))
        if target.startswith("docs/") or not (_REPOSITORY / target).exists():
            return link[0]
        return f"]({config.repo_url.rstrip('/')}/blob/main/{target}{link[2] or ''})"

    return _LINK.sub(led, markdown)
