"""The site's pages: nothing of a conversation is left out, and links lead to pages."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
import site_pages
from conversation_pages import conversations


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site_pages.write(folder)
    return folder


@pytest.mark.parametrize("conversation", conversations(), ids=lambda conversation: conversation.name)
def test_a_page_has_every_line_of_its_conversation(site, conversation):
    page = (site / "conversations" / f"{conversation.name}.md").read_text(encoding="utf-8")
    words = html.unescape(re.sub(r"<[^>]+>", "", page)).replace("\\", "").split()
    said = [line for line in conversation.lines if not line.startswith("#")]
    shown = re.findall(r'<span class="\w+">(.*?)</span>', page)
    assert [html.unescape(line) for line in shown if line != "&#8203;"] == [line for line in said if line]
    for line in conversation.lines:
        if line.startswith("# Rules: "):
            assert all(rule in page for rule in conversation.rules)
        elif line.startswith("#"):
            assert " ".join(line.removeprefix("#").replace("\\", "").split()) in " ".join(words)


def test_links_lead_to_pages_and_pictures(site):
    broken = []
    for page in site.rglob("*.md"):
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in link and not (page.parent / link.partition("#")[0]).exists():
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


def test_every_page_is_in_the_navigation(site):
    listed = set()
    for page in (site / "index.md", site / "conversations" / "index.md"):
        for contents in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
            names = [line for line in contents.splitlines() if line and not line.startswith(":")]
            listed |= {(page.parent / f"{name}.md").relative_to(site) for name in names}
    assert listed == {page.relative_to(site) for page in site.rglob("*.md")} - {Path("index.md")}
