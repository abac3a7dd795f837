"""Build a program with a copy of go-libp2p-pubsub whose scorer gets the time from the caller.

This needs go and the modules of interop/go. The Go files of this folder are added to the copy. Except for the time in
`score.go`, nothing is changed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
MODULE = "github.com/libp2p/go-libp2p-pubsub"


def build_program(folder: Path, body: str, *imports: str) -> tuple[Path, str]:
    """Build a program with this body of `main`; return its path, and the version of go-libp2p-pubsub."""
    listed = ["go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", MODULE]
    place, version = subprocess.check_output(listed, cwd=HERE.parent / "go", text=True).split()
    copy = folder / "pubsub"
    shutil.copytree(place, copy, ignore=shutil.ignore_patterns("*_test.go"))
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755)
    timed = copy / "score.go"
    text = timed.read_text(encoding="utf-8").replace("time.Now()", "drivenNow()")
    timed.write_text(re.sub(r"\btime\.Since\(", "drivenSince(", text), encoding="utf-8")
    for file in HERE.glob("*.go"):
        shutil.copy(file, copy)
    for name in ("go.mod", "go.sum"):
        shutil.copy(HERE.parent / "go" / name, folder)
    with (folder / "go.mod").open("a", encoding="utf-8") as file:
        file.write(f"\nreplace {MODULE} => ./pubsub\n")
    needed = "".join(f'import "{name}"\n' for name in imports)
    (folder / "main.go").write_text(
        f'package main\n\nimport pubsub "{MODULE}"\n{needed}\nfunc main() {{ {body} }}\n', encoding="utf-8"
    )
    subprocess.run(["go", "build", "-mod=mod", "-o", "driver", "."], cwd=folder, check=True)
    return folder / "driver", version
