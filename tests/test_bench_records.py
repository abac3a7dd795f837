"""`make bench` replaces the section of the last run on a page, and nothing else."""

from __future__ import annotations

import record


def test_only_the_section_of_the_last_run_is_replaced(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A bench\n\nBy hand.\n", encoding="utf-8")
    record.replace_last_run(page, f"{record.LAST_RUN}\nfirst\n")
    record.replace_last_run(page, f"{record.LAST_RUN}\nsecond\n")
    assert page.read_text(encoding="utf-8") == f"# A bench\n\nBy hand.\n\n{record.LAST_RUN}\nsecond\n"


def test_every_bench_has_its_script_and_its_page():
    for bench in record.BENCHES:
        assert (record.ROOT / "bench" / f"{bench.script}.py").is_file()
        assert bench.page.read_text(encoding="utf-8").startswith("# ")


def test_the_index_agrees_with_the_pages():
    index = record.PAGES / "index.md"
    before = index.read_text(encoding="utf-8")
    assert record.updated_index(before) == before
