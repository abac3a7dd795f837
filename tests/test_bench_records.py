"""Tests of what `make bench` writes: below its heading, and nothing else."""

from __future__ import annotations

import record


def test_what_is_written_by_hand_stays_and_the_last_run_is_replaced(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A bench\n\nBy hand.\n", encoding="utf-8")
    record.replace_last_run(page, f"{record.LAST_RUN}\nfirst\n")
    record.replace_last_run(page, f"{record.LAST_RUN}\nsecond\n")
    assert page.read_text(encoding="utf-8") == f"# A bench\n\nBy hand.\n\n{record.LAST_RUN}\nsecond\n"


def test_every_bench_has_its_script_and_its_page():
    for bench in record.BENCHES:
        assert (record.ROOT / "bench" / f"{bench.script}.py").is_file()
        assert bench.page.read_text(encoding="utf-8").startswith("# ")


def test_the_index_is_what_the_pages_say():
    index = record.PAGES / "index.md"
    before = index.read_text(encoding="utf-8")
    assert record.updated_index(before) == before
