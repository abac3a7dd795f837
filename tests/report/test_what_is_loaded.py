"""Reports and explanations are made from tables and rows, without loading a router."""

from __future__ import annotations

import subprocess
import sys

from runs_with_tables import simulate_with_tables

ROUTERS = ("hearsay.core.episub", "hearsay.core.flooding", "hearsay.core.mesh", "hearsay.core.registry",
           "hearsay.core.scores", "hearsay.sim.reference", "hearsay.sim.array")  # fmt: skip
RUN_AND_LIST_MODULES = """
import sys
sys.argv = ["hearsay", *sys.argv[1:]]
from hearsay.cli.main import main
try:
    main()
except SystemExit as end:
    print(end.code or 0)
print(*sys.modules)
"""


def loaded_by(*arguments: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", RUN_AND_LIST_MODULES, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    *_, code, modules = done.stdout.splitlines()
    assert code == "0", done.stderr
    return modules.split()


def test_a_report_with_explanations_loads_no_router(tmp_path):
    run = simulate_with_tables(tmp_path / "run", 1, loss=0.6)
    loaded = loaded_by("report", run, "--explain")
    assert "Worth explaining" in (run / "report.html").read_text(encoding="utf-8")
    assert [name for name in loaded if name.startswith(ROUTERS)] == []
    assert sum(name.startswith("hearsay") for name in loaded) <= 160


def test_an_explanation_loads_no_router(tmp_path):
    run = simulate_with_tables(tmp_path / "run", 1, loss=0.6)
    loaded = loaded_by("explain", run, "--message", "0")
    assert [name for name in loaded if name.startswith(ROUTERS)] == []
