"""What `import hearsay` runs where this program came as a zip: there this file is `hearsay/__init__.py`.

The program lies beside it in the zip. It is unpacked, and the package that lies on the disk then takes the place of
this module: everything is as in an installation. Where nothing can be written, it is the package in the zip.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

PROGRAM = "hearsay-program"
"""Where in the zip the package lies. This is no name that can be imported."""


def take_package_from(place: Path) -> None:
    """`hearsay` is from now on the package in this folder, which may lie in a zip; another one is forgotten."""
    for name in [name for name in sys.modules if name.split(".")[0] == "hearsay"]:
        del sys.modules[name]
    spec = PathFinder.find_spec("hearsay", [str(place)])
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"no hearsay in {place}", name="hearsay")
    module = sys.modules["hearsay"] = module_from_spec(spec)
    spec.loader.exec_module(module)


def take_package_of(archive: Path) -> None:
    """`hearsay` is the package that came in this zip."""
    take_package_from(archive / PROGRAM)
    from hearsay.pipeline.spark.unpacking import unpacked

    folder = unpacked(archive, PROGRAM)
    if folder is not None:
        take_package_from(folder)


if __name__ == "hearsay":
    take_package_of(Path(__file__).parents[1])
