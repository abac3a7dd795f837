"""Which test files run on one worker, and which begin.

A worker takes whole files, so that what the tests of a file share is made once. Files that share more than that, such
as a session of Spark or compiled kernels, are taken together. What takes long comes first; short files fill the end.

xdist's own groups (`--dist loadgroup`) do not work with this pytest: they are written into names that it no longer
reads, and every test goes anywhere.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

TOGETHER = {
    "machine code": (
        "tests/sim/test_array_engine.py",
        "tests/sim/test_trace_hashes.py",
        "tests/sim/test_runs.py",
        "tests/interaction/test_replayed_conversations.py",
    ),
    "elsewhere": (
        "tests/pipeline/test_faults.py",
        "tests/pipeline/test_cluster.py",
        "tests/studies/test_studies_on_clusters.py",
        "tests/studies/test_tuning_on_clusters.py",
        "tests/studies/test_killed_sweeps.py",
    ),
    "here": (
        "tests/pipeline/test_against_duckdb.py",
        "tests/pipeline/test_scores_and_bargains.py",
        "tests/pipeline/test_peer_exchange.py",
        "tests/pipeline/test_follow.py",
        "tests/pipeline/test_long_traces.py",
        "tests/pipeline/test_private_sessions.py",
        "tests/pipeline/test_both_worlds.py",
        "tests/pipeline/test_small_runs.py",
        "tests/studies/test_tuning_on_spark.py",
        "tests/studies/test_sweeps.py",
        "tests/ingest/test_spark_import.py",
    ),
}
"""Kernels, compiled where they are new; Spark in processes and clusters of its own; Spark in the worker itself."""
ALONE = (
    "tests/studies/test_tuning.py",
    "tests/pipeline/test_real_traces.py",
    "tests/cli/test_demo.py",
    "tests/cli/test_node_command.py",
    "tests/cli/test_terminal_text.py",
    "tests/report/test_paper_figures.py",
    "tests/watch/test_watch_page.py",
    "tests/deploy/test_deploy.py",
    "tests/pipeline/test_prepared_jvm.py",
    "tests/report/test_write_report.py",
    "tests/sim/test_episub_runs.py",
    "tests/cli/test_signals.py",
    "tests/cli/test_plain_installation.py",
    "tests/cli/test_whose_folders.py",
    "tests/cli/test_commands.py",
    "tests/trace/test_writer.py",
    "tests/sim/test_planted_episub_faults.py",
    "tests/studies/test_processes.py",
    "tests/ingest/test_importing.py",
    "tests/cli/test_prepared_commands.py",
    "tests/cli/test_tracestat_command.py",
    "tests/report/test_page_in_chromium.py",
    "tests/trace/test_run_series.py",
    "tests/ingest/test_event_decoder.py",
    "tests/core/test_episub_machine.py",
    "tests/core/test_router_machines.py",
)
"""Files of ten seconds and more."""

UNITS = {file: name for name, files in TOGETHER.items() for file in files}
RANKS = {file: rank for rank, file in enumerate((*UNITS, *ALONE))}


def file_of(name: str) -> str:
    return name.partition("::")[0]


def rank(name: str) -> int:
    """Of a test, by its name: longest first, the others as they are found."""
    return RANKS.get(file_of(name), len(RANKS))


class WholeFiles(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = file_of(nodeid)
        return UNITS.get(file, file)
