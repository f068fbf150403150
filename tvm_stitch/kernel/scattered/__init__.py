"""Rows that sum what indices send to them: see kind.py."""
