"""Measures what the project promises: `make bench`, or `python -m bench NAME...` for some of it."""
