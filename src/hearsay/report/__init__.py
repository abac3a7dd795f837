"""Reports of analysed runs, studies, scores and messages: HTML files that need no network, and figures for papers.

Nothing is imported here.
"""
