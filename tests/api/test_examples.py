"""Examples and pages import public modules only, and the programs of the page of the API run."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import pytest

import hearsay

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = sorted((ROOT / "docs").rglob("*.md"))
PUBLIC = ("routers", "partial", "pipeline", "ingest")
API = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")


def internal_imports(program: str) -> set[str]:
    """Return the modules of the package that a program imports and that are not public."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name for name in names if name.startswith("hearsay.")} - {f"hearsay.{package}" for package in PUBLIC}


def programs(page: str, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_import_no_internal_module(example):
    assert internal_imports(example.read_text(encoding="utf-8")) == set()


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Return a function that runs an example in another folder, requires exit code 2, and returns its stderr."""

    def run(name: str, *arguments: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [str(ROOT / "examples" / name), *arguments])
        with pytest.raises(SystemExit) as ended:
            run_path(sys.argv[0], run_name="__main__")
        said = capsys.readouterr()
        assert (ended.value.code, said.out) == (2, "")
        return said.err

    return run


@pytest.mark.parametrize(
    "address", ["", "localhost:4001", "/ip4/127.0.0.1/tcp/99999/p2p/12D3", "/ip4/1.2.3/tcp/1", "/x"]
)
@pytest.mark.parametrize("words", ["chat.py", "columns.py --has 0-4", f"file_sharing.py fetch {'ab' * 32} copy"])
def test_examples_report_a_malformed_address_in_a_line(words, address, refused):
    name, *more = words.split()
    said = refused(name, "--connect", address, *more)
    assert re.fullmatch(r"[a-z_]+\.py: error: argument --connect: .*multiaddr.*", said.splitlines()[-1])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["share", "not-there"], "not-there: No such file or directory"),
        (["share", "."], ".: Is a directory"),
        (["fetch", "abc", "copy"], "argument root: 'abc' is not the root of a file: 64 hexadecimal digits"),
        (["fetch", "ab" * 32, "no/such/folder/copy"], "'no/such/folder/copy': a file cannot be written there"),
    ],
)
def test_a_file_that_cannot_be_shared_or_fetched_is_reported_before_the_node_starts(words, said, refused):
    assert refused("file_sharing.py", *words).splitlines()[-1].endswith(said)


def test_programs_in_pages_import_no_internal_module():
    pages = [path.read_text(encoding="utf-8") for path in PAGES]
    lines = [line for page in pages for program in programs(page) for line in program.splitlines()]
    assert [
        line for line in lines if re.match(rf"\s*(from|import) hearsay\.(?!(?:{'|'.join(PUBLIC)})\b)", line)
    ] == []


def test_the_page_of_the_api_has_every_public_name():
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
