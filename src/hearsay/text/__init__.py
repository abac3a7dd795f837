"""Figures and settings in the words of people: what the terminal, the reports and the studies have in common."""
