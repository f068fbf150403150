"""Softmax over rows of any number and length, run in the CPU executor."""

import numpy as np
from tvm import tirx
from zoo import softmax64

from tvm_stitch import simt

ROWS, COLUMNS = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def run_softmax(function: simt.Function, rows: int, columns: int) -> None:
    """Run for one size and compare; what lies beyond the last row must stay as it is."""
    x = np.random.default_rng(rows + columns).standard_normal((rows, columns)).astype("float32")
    for seed in (0, 1, 2):
        out = np.empty_like(x)
        run = function(x, out, seed=seed)
        assert run.ok, str(run)
        np.testing.assert_allclose(out, softmax64(x.astype("float64")), atol=2e-6)
