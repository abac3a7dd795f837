"""Stored machine code of ingest and pipeline: changed sources are compiled again, by one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

import hearsay
from hearsay.trace.language.compiled_code import KeptCode

PACKAGE = Path(hearsay.__file__).parent
DECODE_VARINT = (
    "import numpy as np; from hearsay.ingest.protobuf_fields import varint;"
    "print(varint(np.array([172, 2], dtype=np.uint8), 0, 2))"
)


def printed(folder: Path, code: str) -> str:
    """Run code with the package of a folder, whose cache is in the same folder; return the output."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def replace_in(files: Sequence[Path], old: str, new: str) -> None:
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    assert any(old in text for text in texts.values())
    for file, text in texts.items():
        file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.thorough
def test_an_upgrade_in_place_compiles_again(tmp_path):
    copy = copytree(PACKAGE, tmp_path / "hearsay", ignore=ignore_patterns("__pycache__"))
    decoding = sorted((copy / "ingest").glob("*.py"))
    assert printed(tmp_path, DECODE_VARINT) == "(300, 2)"
    replace_in(decoding, "shift", "shifted")
    assert printed(tmp_path, DECODE_VARINT) == "(300, 2)"
    assert len([*(tmp_path / "cache" / "hearsay" / "ingest").iterdir()]) == 2
    assert [*copy.rglob("*.nb[ci]")] == []


LOCK_AND_LOOK = """
from pathlib import Path
from hearsay.trace.language.compiled_code import KeptCode
print("waits", flush=True)
with KeptCode("ingest", ("ingest", "core", "trace")).lock("entry"):
    print(Path(FILE).exists())
"""


def test_one_process_at_a_time_compiles_a_function(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled = tmp_path / "compiled"
    code = LOCK_AND_LOOK.replace("FILE", repr(str(compiled)))
    with KeptCode("ingest", ("ingest", "core", "trace")).lock("entry"):
        other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert other.stdout.readline() == "waits\n"
        compiled.touch()
    assert other.communicate()[0] == "True\n"


def test_compiled_modules_import_only_packages_whose_files_are_in_the_digest():
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "\n@compiled" not in text:
            continue
        package = file.relative_to(PACKAGE).parts[0]
        imported = {line.split(".")[1] for line in text.splitlines() if line.startswith("from hearsay.")}
        assert imported <= {package, "core", "trace"}, file
