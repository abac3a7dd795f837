"""Figures and settings as text for people, as the terminal, the reports and the studies show them."""
