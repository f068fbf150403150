"""Regions of large graphs planned by several processes at a time."""
