"""The rules of routers as kernels: the only room that changes when a rule does."""
