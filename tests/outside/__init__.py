"""Suites from outside: what others wrote, or chance did, and not whoever wrote the compiler."""
