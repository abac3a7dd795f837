"""What routers decide by numbers alone: run here by the routers, and compiled for the array engine's kernels."""
