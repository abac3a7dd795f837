"""The tables of a scenario: which keys there are, and what each may hold."""
