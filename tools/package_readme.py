"""The README for a package index, where its relative links and pictures lead nowhere. The build runs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)]*)\)")


def readme_for_index(text: str, urls: Mapping[str, str]) -> str:
    """Return the README without relative links: they are below `Source` of project.urls, or else paths in words."""
    source = urls.get("Source")
    link = r"\1 (`\2`)" if source is None else rf"[\1]({source.rstrip('/')}/\2)"
    return _LINK.sub(link, _PICTURE.sub("", text))


class ReadmeHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        shown = readme_for_index(text, metadata.get("urls", {}))
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}
