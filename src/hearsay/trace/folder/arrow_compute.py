"""Arrow's functions over columns: apart from the other doors, because only reports need them and they load slowly."""

from __future__ import annotations

from typing import Any

import pyarrow.compute

compute: Any = pyarrow.compute
