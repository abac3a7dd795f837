"""Writes the pages of the site into a folder for Sphinx: those of docs/ and of the root, and the conversations.

    python tools/site/site_pages.py FOLDER

In the repository, links are relative to its files. They become links between pages of the site. A link to a file
that is not in the site becomes its label.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from conversation_pages import conversations, index, rules_page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ROOT_PAGES = {
    "README.md": "project/readme.md",
    "ARCHITECTURE.md": "design/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "RELEASING.md": "project/releasing.md",
    "CHANGELOG.md": "project/changelog.md",
}
"""Pages of the root, and their places in the site."""
SECTIONS = {
    "Guide": "guide",
    "Routers": "routers",
    "Reference": "reference",
    "Design": "design",
    "Decisions": "decisions",
    "Benchmarks": "benchmarks",
    "Project": "project",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def site_path(target: Path) -> str | None:
    """Return the path in the site of a file of the repository; None if the file is not in the site."""
    name = Path(os.path.normpath(target)).relative_to(ROOT).as_posix()
    if name == "tests/interaction":
        return "conversations/index.md"
    inside = name.removeprefix("docs/")
    return ROOT_PAGES.get(name) or (inside if inside != name and target.is_file() else None)


def with_links_of_the_site(markdown: str, source: Path, place: str) -> str:
    def relinked(found: re.Match[str]) -> str:
        mark, label, link = found.groups()
        path, _, anchor = link.partition("#")
        if not path or "://" in link:
            return found[0]
        target = site_path(source.parent / path)
        if target is None:
            return label if label.startswith("`") else f"`{label}`"
        there = os.path.relpath(target, Path(place).parent).replace(os.sep, "/")
        return f"{mark}[{label}]({there}{'#' + anchor if anchor else ''})"

    pieces, end = [], 0
    for code in _CODE.finditer(markdown):
        pieces += [_LINK.sub(relinked, markdown[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*pieces, _LINK.sub(relinked, markdown[end:])])


def contents(pages: dict[str, Path]) -> str:
    """Return the navigation: the pages of each section, its index first, then the others by title."""

    def title(place: str) -> str:
        return pages[place].read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")

    parts: list[str] = []
    for section, folder in SECTIONS.items():
        places = [place for place in pages if place.startswith(f"{folder}/")]
        places.sort(key=lambda place: (not place.endswith("/index.md"), title(place).casefold()))
        if folder == "guide":
            places.append("questions.md")
        if folder == "routers":
            places += ["conversations/rules.md", "conversations/index.md"]
        names = "\n".join(place.removesuffix(".md") for place in places)
        parts.append(f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n:caption: {section}\n\n{names}\n```\n")
    return "\n".join(parts)


def write(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("pictures", "notebooks"):
        shutil.copytree(DOCS / name, folder / name)
    pages = {place: ROOT / name for name, place in ROOT_PAGES.items()}
    pages |= {page.relative_to(DOCS).as_posix(): page for page in sorted(DOCS.rglob("*.md"))}
    all_conversations = conversations()
    texts = {place: with_links_of_the_site(page.read_text("utf-8"), page, place) for place, page in pages.items()}
    texts["index.md"] += f"\n{contents(pages)}"
    texts["conversations/index.md"] = index(all_conversations)
    texts["conversations/rules.md"] = rules_page(all_conversations)
    texts |= {f"conversations/{conversation.name}.md": conversation.page() for conversation in all_conversations}
    for place, text in texts.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
