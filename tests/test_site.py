"""The pages of the site: conversations are complete, links lead to pages, and the search works."""

from __future__ import annotations

import html
import re
import subprocess
import warnings
from pathlib import Path

import pytest
import site_pages
from conversation_pages import conversations

from chromium import open_page

ROOT = Path(__file__).parents[1]
SPHINX = ROOT / "build" / "site-tools" / "bin" / "sphinx-build"


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site_pages.write(folder)
    return folder


@pytest.mark.parametrize("conversation", conversations(), ids=lambda conversation: conversation.name)
def test_a_page_has_every_line_of_its_conversation(site, conversation):
    page = (site / "conversations" / f"{conversation.name}.md").read_text(encoding="utf-8")
    words = html.unescape(re.sub(r"<[^>]+>", "", page)).replace("\\", "").split()
    expected = [line for line in conversation.lines if not line.startswith("#")]
    shown = re.findall(r'<span class="\w+">(.*?)</span>', page)
    assert [html.unescape(line) for line in shown if line != "&#8203;"] == [line for line in expected if line]
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


@pytest.fixture(scope="module")
def built(site, tmp_path_factory) -> Path:
    if not SPHINX.exists():
        warnings.warn("NOT TESTED: the built site; `make site` installs its generator", stacklevel=1)
        pytest.skip("NOT TESTED: the site's generator is not installed")
    folder = tmp_path_factory.mktemp("built")
    subprocess.run([SPHINX, "-q", "-W", "-c", ROOT / "tools/site", site, folder], check=True)
    return folder


@pytest.mark.thorough
def test_a_reader_searches_the_site_from_the_disk(built, browser):
    page = open_page(browser, built / "index.html")
    form = page.value("document.querySelector('[name=q]').form.action")
    page.visit(f"{form}?q=idontwant")
    page.until("document.querySelectorAll('#search-results li a').length > 20")
    page.until("document.querySelector('#search-results').textContent.includes('finished')")
    found = page.visible_texts("#search-results li a")
    assert "gossipsub 1.2: IDONTWANT" in found
    assert page.console_messages() == []
    address = page.value("document.querySelectorAll('#search-results li a')[1].href")
    page.visit(address)
    assert "IDONTWANT" in page.visible_texts("h1")[0]
    assert page.console_messages() == []
    page.visit((built / "search.html").as_uri() + "?q=nosuchwordanywhere")
    page.until("document.querySelector('#search-results').textContent.includes('did not match')")
    page.close()


@pytest.mark.thorough
def test_keyboard_and_screen_readers_reach_what_a_page_has(built, browser):
    page = open_page(browser, built / "guide/studies.html", width=400)
    assert page.value("document.querySelectorAll('[role=heading]:not([aria-level])').length") == 0
    assert page.value("document.querySelectorAll('th p:empty').length") == 0
    assert page.value("[...document.querySelectorAll('aside')].map(e => e.ariaLabel)") == ["Pages", "On this page"]
    wide = "[...document.querySelectorAll('article *')].filter(e => e.scrollWidth > e.clientWidth + 1)"
    scrolling = f"{wide}.filter(e => getComputedStyle(e).overflowX === 'auto')"
    assert page.value(f"{scrolling}.length") > 0
    assert page.value(f"{scrolling}.filter(e => e.tabIndex < 0).length") == 0
    page.close()


@pytest.mark.thorough
@pytest.mark.parametrize("width", [400, 1024, 1400])
def test_no_page_of_the_site_scrolls_sideways(built, browser, width):
    page = open_page(browser, built / "index.html", width=width)
    for name in ("index", "reference/scenario", "reference/tables", "guide/explain", "benchmarks/index"):
        page.open(built / f"{name}.html")
        assert page.value("document.documentElement.scrollWidth") <= width, name
        assert page.console_messages() == []
    page.close()
