"""Named sets of score parameters: the defaults of implementations, and what networks run.

Numbers are facts of others' sources; each file says of which. Topics are named by what they are for.
"""
