"""Readers for models that are not Relax modules."""
