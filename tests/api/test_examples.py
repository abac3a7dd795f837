"""Examples and pages use the front door, and the pages' programs run."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hearsay

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = sorted((ROOT / "docs").rglob("*.md"))
API = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")


def deeper(program: str) -> set[str]:
    """Modules of ours that a program imports beside the front door."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name for name in names if name.startswith("hearsay.")} - {"hearsay.routers", "hearsay.partial"}


def programs(page: str, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_import_nothing_deeper(example):
    assert deeper(example.read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize("odd", ["", "localhost:4001", "/ip4/127.0.0.1/tcp/99999/p2p/12D3", "/ip4/1.2.3/tcp/1", "/x"])
@pytest.mark.parametrize("words", ["chat.py", "columns.py --has 0-4", f"file_sharing.py fetch {'ab' * 32} copy"])
def test_examples_say_in_a_line_what_is_odd_about_an_address(words, odd, tmp_path):
    name, *more = words.split()
    wanted = ["--connect", odd, *more]
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *wanted], cwd=tmp_path, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"[a-z_]+\.py: error: argument --connect: .*multiaddr.*", done.stderr.splitlines()[-1])
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["share", "not-there"], "not-there: No such file or directory"),
        (["share", "."], ".: Is a directory"),
        (["fetch", "abc", "copy"], "argument root: 'abc' is not the root of a file: 64 hexadecimal digits"),
        (["fetch", "ab" * 32, "no/such/folder/copy"], "'no/such/folder/copy': a file cannot be written there"),
    ],
)
def test_what_cannot_be_shared_or_fetched_is_said_at_once(words, said, tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "file_sharing.py"), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith(said)


def test_programs_in_pages_import_nothing_deeper():
    pages = [path.read_text(encoding="utf-8") for path in PAGES]
    lines = [line for page in pages for program in programs(page) for line in program.splitlines()]
    assert [line for line in lines if re.match(r"\s*(from|import) hearsay\.(?!(?:routers|partial)\b)", line)] == []


def test_the_page_has_every_name():
    prose = re.sub(r"^```.*?^```", "", API, flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", prose))))
    assert set(hearsay.__all__) <= named


def run(program: str, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


def test_the_programs_of_the_page_run(tmp_path):
    run("\n".join(programs(API)), tmp_path)


@pytest.mark.thorough
@pytest.mark.xdist_group("spark")
def test_the_programs_on_spark_run(tmp_path):
    run("import hearsay\n" + "\n".join(programs(API, "python spark")), tmp_path)
