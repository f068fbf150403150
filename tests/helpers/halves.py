"""Random halves of either kind, for instructions of the CPU executor that multiply matrices."""

import ml_dtypes
import numpy as np

ORDERS = (0, 1, 2)
DTYPES = {"f16": np.dtype("float16"), "bf16": np.dtype(ml_dtypes.bfloat16)}


def random_halves(shape, kind, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[kind])
