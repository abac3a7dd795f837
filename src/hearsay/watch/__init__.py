"""A network while it runs, as a page that browsers draw: rows go in, frames come out."""
