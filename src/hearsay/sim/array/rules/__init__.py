"""The rules of routers as kernels, except episub's: the only folder that changes with a rule."""
