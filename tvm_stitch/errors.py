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


class TorchError(InputError):
    """A PyTorch program that holds what Relax has no counterpart for."""


class OnnxError(InputError):
    """An ONNX model that cannot be read, or holds what Relax has no counterpart for."""


def first_line(error: Exception) -> str:
    """The first line of an error that says something, to stand within a sentence."""
    return next(iter(_lines(error)), type(error).__name__).rstrip(".: ")


def last_line(error: Exception) -> str:
    """The last line that says something: TVM's traces end with what matters."""
    return next(reversed(_lines(error)), type(error).__name__).rstrip(".: ")


def _lines(error: Exception) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()]
