"""Tuning: the parameters that do best under bounds, searched over the axes of a scenario instead of crossing them."""
