"""Score parameters held against what a network needs of them: findings, figures and curves, without a run."""
