"""Converted parts are lowered, by other processes where there are several."""
