"""Checks of score parameters against the needs of a network: findings, figures and curves, without a run."""
