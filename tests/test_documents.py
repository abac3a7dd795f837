"""Programs in the documents run as printed; links, files and names in documents and docstrings exist."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import duckdb
from commands import hearsay
from result_tables import write_run

DOCS = Path(__file__).parents[1] / "docs"
OTHER_DOTTED_NAMES = {"hearsay.news", "http.client"}
"""A logger, and a module of the standard library."""


MAX_WORDS = 52_700
"""Words of all pages, as `wc -w` counts them. Cut what repeats before you raise it."""


def test_the_pages_are_short():
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in DOCS.rglob("*.md")) <= MAX_WORDS


def test_a_guide_begins_with_an_example_a_table_or_a_picture():
    for page in (DOCS / "guide").glob("*.md"):
        first = page.read_text(encoding="utf-8").split("\n\n")[1].lstrip("\n")
        assert first.startswith(("```", "    ", "|", "![")), page.name


def blocks(page: str, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_the_programs_of_a_router_of_ones_own(monkeypatch):
    monkeypatch.syspath_prepend(DOCS.parent / "examples")
    exec("\n".join(blocks("guide/extending.md", "python")), {})
    sys.modules.pop("echo_router", None)


def test_the_programs_of_partial_messages():
    exec("\n".join(blocks("guide/partial-messages.md", "python")), {})


def test_the_programs_that_read_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = Path("runs/first")
    assert hearsay("simulate", "--nodes", 30, "--messages", 2, "--out", run).returncode == 0
    write_run(run)
    programs = blocks("guide/python.md", "python")
    assert len(programs) == 4
    exec("\n".join(programs), {})
    assert "peer_count_distinct: int64" in capsys.readouterr().out
    for question in blocks("guide/python.md", "sql"):
        assert duckdb.sql(question).fetchall()


def tracked_files(*patterns: str) -> list[Path]:
    """Return files under version control."""
    names = subprocess.check_output(["git", "ls-files", *patterns], cwd=DOCS.parent, text=True).splitlines()
    return [DOCS.parent / name for name in names if (DOCS.parent / name).is_file()]


def headings(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as renderers of Markdown make them."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def test_every_link_of_a_page_leads_to_a_file_and_a_heading():
    broken = []
    for page in tracked_files("*.md"):
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if "://" not in link and not (target.exists() and (not anchor or anchor in headings(target))):
                broken.append(f"{page.relative_to(DOCS.parent)}: {link}")
    assert broken == []


def test_every_page_that_is_named_exists():
    missing = []
    for file in tracked_files("*.md", "*.py", "*.toml", "Makefile"):
        for name in re.findall(r"\bdocs/[\w/.-]+\.(?:md|svg|png)\b", file.read_text(encoding="utf-8")):
            if not (DOCS.parent / name).is_file():
                missing.append(f"{file.relative_to(DOCS.parent)}: {name}")
    assert missing == []


def test_modules_that_are_named_exist():
    names = {path.name for path in tracked_files("*.py")}
    missing = []
    for file in tracked_files("*.md", "*.py"):
        if file.name != "CHANGELOG.md":
            for name in re.findall(r"`(?:[\w/]*/)?(\w+\.py)`", file.read_text(encoding="utf-8")):
                if name not in names:
                    missing.append(f"{file.relative_to(DOCS.parent)}: {name}")
    assert missing == []


def test_dotted_names_in_comments_and_docstrings_exist():
    """Names of modules and their members below `hearsay`, written with or without `hearsay.`."""
    packages = {path.parent.name for path in (DOCS.parent / "src/hearsay").glob("*/__init__.py")}
    missing = []
    for file in tracked_files("src/*.py", "tests/*.py", "tools/*.py", "bench/*.py"):
        for name in re.findall(r"`([a-z_]\w*(?:\.\w+)+)(?:\(\))?`", file.read_text(encoding="utf-8")):
            first, _, rest = name.partition(".")
            path = f"hearsay.{rest}" if first == "hearsay" else f"hearsay.{name}"
            if name not in OTHER_DOTTED_NAMES and (first == "hearsay" or first in packages):
                try:
                    pkgutil.resolve_name(path)
                except (ImportError, AttributeError):
                    missing.append(f"{file.relative_to(DOCS.parent)}: {name}")
    assert missing == []


def test_files_that_pages_of_the_root_name_exist():
    """Paths from the root, or from src/hearsay; `…/*` is a pattern."""
    missing = []
    for page in ("ARCHITECTURE.md", "CONTRIBUTING.md", "RELEASING.md"):
        text = re.sub(r"^```.*?^```", "", (DOCS.parent / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for name in re.findall(r"`([a-z]\w*(?:/[\w.*-]+)*/(?:[\w.*-]+\.\w+)?)`", text):
            if not any(next(iter(folder.glob(name)), None) for folder in (DOCS.parent, DOCS.parent / "src/hearsay")):
                missing.append(f"{page}: {name}")
    assert missing == []


def test_links_of_the_glossary_have_the_names_of_their_files():
    links = re.findall(
        r"\[(\w+\.py)\]\([^)]*?(\w+\.py)\)", (DOCS / "reference/glossary.md").read_text(encoding="utf-8")
    )
    assert len(links) > 20
    assert [link for link in links if link[0] != link[1]] == []
