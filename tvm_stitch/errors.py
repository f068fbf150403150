"""The errors users see. Every message says what is wrong, where, and what to do about it."""


class StitchError(Exception):
    """Base of every error this package raises on purpose."""


class InputError(StitchError, ValueError):
    """A model, argument, option or target that cannot be used as given."""


class CompilerMissing(StitchError):
    """A compiler outside Python (g++, nvcc) is needed and was not found or does not work."""


class SimtError(StitchError):
    """A kernel could not be run on the CPU executor."""


class RelayError(InputError):
    """A saved Relay module that cannot be read, or holds what Relax has no counterpart for."""
