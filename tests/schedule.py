"""The order of test files, and the files that run on one worker.

A worker takes whole files, so that what the tests of a file share is made once. Files that share more than that, such
as a session of Spark or compiled kernels, are taken together. Long files come first; short files fill the end.

xdist's own groups (`--dist loadgroup`) do not work with this pytest: they are written into names that it no longer
reads, and every test goes anywhere.
"""

from __future__ import annotations

from zlib import crc32

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
        "tests/studies/test_studies_on_clusters.py",
        "tests/pipeline/test_cluster.py",
        "tests/pipeline/test_kept_server.py",
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
        "tests/studies/test_tuning_on_spark.py",
        "tests/studies/test_sweeps.py",
        "tests/ingest/test_spark_import.py",
    ),
}
"""Kernels, compiled where they are new; Spark in processes and clusters of its own; Spark in the worker itself."""
ALONE = (
    "tests/stores/test_stores.py",
    "tests/deploy/test_deploy.py",
    "tests/sim/test_episub_runs.py",
    "tests/report/test_paper_figures.py",
    "tests/pipeline/test_prepared_jvm.py",
    "tests/studies/test_tuning.py",
    "tests/explain/test_against_brute_force.py",
    "tests/cli/test_node_command.py",
    "tests/api/test_notebooks.py",
    "tests/pipeline/test_real_traces.py",
    "tests/watch/test_watch_page.py",
    "tests/trace/test_run_series.py",
    "tests/api/test_snapshots.py",
    "tests/test_questions_page.py",
    "tests/api/test_examples.py",
    "tests/cli/test_signals.py",
    "tests/watch/test_run_folders.py",
    "tests/core/test_episub_machine.py",
    "tests/explain/test_missing.py",
    "tests/cli/test_whose_folders.py",
    "tests/cli/test_tracestat_command.py",
    "tests/trace/test_writer.py",
    "tests/studies/test_tuning_from_python.py",
    "tests/cli/test_terminal_text.py",
    "tests/report/test_write_report.py",
    "tests/cli/test_prepared_commands.py",
    "tests/watch/test_joined_nodes.py",
    "tests/core/test_router_machines.py",
    "tests/cli/test_plain_installation.py",
    "tests/trace/test_diff.py",
    "tests/cli/test_commands.py",
    "tests/ingest/test_event_decoder.py",
    "tests/cli/test_demo.py",
    "tests/ingest/test_bounded_imports.py",
    "tests/studies/test_tuning_under_noise.py",
    "tests/ingest/test_importing.py",
    "tests/explain/test_eager_links.py",
    "tests/wire/test_rpc_codec.py",
    "tests/studies/test_comparisons.py",
    "tests/soak/test_run_soak.py",
    "tests/watch/test_picture.py",
    "tests/node/test_killed_nodes.py",
    "tests/sim/test_planted_episub_faults.py",
    "tests/trace/test_kept_code.py",
    "tests/studies/test_processes.py",
    "tests/report/test_page_in_chromium.py",
    "tests/partial/test_exchange.py",
    "tests/report/test_worth_explaining.py",
    "tests/node/test_nodes.py",
    "tests/sim/test_planted_judgements.py",
)
"""Files of six seconds and more; those that wait for clocks and processes lie among those that compute."""

UNITS = {file: name for name, files in TOGETHER.items() for file in files}
RANKS = {file: rank for rank, file in enumerate((*UNITS, *ALONE))}


def file_of(name: str) -> str:
    return name.partition("::")[0]


def rank(name: str) -> tuple[int, int]:
    """Return a test's place by its name: longest first. Other files are mixed: a folder's files wait for the same."""
    file = file_of(name)
    return RANKS.get(file, len(RANKS)), 0 if file in RANKS else crc32(file.encode())


class WholeFiles(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = file_of(nodeid)
        return UNITS.get(file, file)
