"""Suites from outside, and what only a suite can say: see README.md."""
