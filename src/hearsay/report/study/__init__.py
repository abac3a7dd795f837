"""Reports of studies: pages that are drawn when they are written, and need no script."""
