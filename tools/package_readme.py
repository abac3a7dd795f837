"""A hook of the build: replaces relative links in the README, which would be broken on a package index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|#)([^)]*)\)")


def readme_for_index(text: str, urls: Mapping[str, str]) -> str:
    """Return the README without pictures in files and without relative links. A link becomes a URL below `Source` of
    project.urls, or, without `Source`, its text and path.
    """
    source = urls.get("Source")
    link = r"\1 (`\2`)" if source is None else rf"[\1]({source.rstrip('/')}/\2)"
    return _LINK.sub(link, _PICTURE.sub("", text))


class ReadmeHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        shown = readme_for_index(text, metadata.get("urls", {}))
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}
