"""Whose a process is, and what it need not import."""

from __future__ import annotations

import subprocess
import sys

from kills import environment


def told_by(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
        env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout.strip()


def test_pyarrow_in_a_process_of_ones_own_has_no_pandas_until_it_is_asked_for():
    assert (
        told_by(
            "-c",
            """
import sys
from hearsay.own_process import claim_process

claim_process()
from hearsay.trace.folder.arrow import pa

numbers = pa.table({"number": pa.array([1, None])})
before = "pandas" in sys.modules
frame = numbers.to_pandas()
after = "pandas" in sys.modules
print(before, after, pa.table(frame).num_rows, pa.array(frame["number"]).null_count)
""",
        )
        == "False True 2 1"
    )


def test_pyarrow_in_a_process_of_somebody_else_is_left_as_it_is():
    assert (
        told_by(
            "-c",
            """
import sys
from hearsay.trace.folder.arrow import pa

before = "pandas" in sys.modules
pa.array([1])
print(before, "pandas" in sys.modules)
""",
        )
        == "False True"
    )


def test_other_threads_import_what_they_like_meanwhile():
    assert (
        told_by(
            "-c",
            """
from importlib import import_module
from concurrent.futures import ThreadPoolExecutor
from hearsay.own_process import claim_process, no_pandas

claim_process()
with ThreadPoolExecutor(1) as thread, no_pandas():
    try:
        import_module("pandas")
    except ModuleNotFoundError as error:
        print(error.args[0], thread.submit(import_module, "pandas").result().__name__)
""",
        )
        == "pandas pandas"
    )


def test_commands_that_write_and_read_traces_import_none(tmp_path):
    for command in ("simulate --nodes 3 --out", "explain --message 0"):
        arguments = [*command.split(), str(tmp_path / "run")]
        imported = told_by("-X", "importtime", "-m", "hearsay", *arguments)
        assert "pyarrow.lib" in imported
        assert "pandas.core" not in imported
