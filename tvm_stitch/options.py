"""What a user can decide about stitching."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_stitch.errors import InputError
from tvm_stitch.kernel.schedule import SCHEMES


@dataclass(frozen=True)
class Options:
    """Settings of the stitching passes; the defaults suit most models.

    schemes: what a kernel may use to pass values between its stages; leaving one out sends the
        kernels that need it the default way.
    """

    schemes: tuple[str, ...] = SCHEMES

    def __post_init__(self) -> None:
        unknown = set(self.schemes) - set(SCHEMES)
        if unknown:
            raise InputError(f"unknown schemes {sorted(unknown)}; known are {list(SCHEMES)}")
