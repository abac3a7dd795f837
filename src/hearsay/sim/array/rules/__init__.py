"""The rules of routers as kernels; `sim/array/episub` has the rules of episub."""
