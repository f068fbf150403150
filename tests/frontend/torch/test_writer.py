"""What a converted node must be like."""

import pytest

torch = pytest.importorskip("torch")

from tvm import relax  # noqa: E402

from tvm_stitch.errors import TorchError  # noqa: E402
from tvm_stitch.frontend.torch.symbols import Symbols  # noqa: E402
from tvm_stitch.frontend.torch.writer import _check  # noqa: E402


def test_sizes_of_which_relax_does_not_know_that_they_are_equal():
    """As of two tensors whose rows a model counts apart."""
    product = relax.Var("product", relax.TensorType(dtype="float32", ndim=2))
    with pytest.raises(TorchError, match="equal for all that PyTorch knows"):
        _check(product, torch.zeros(3, 4), Symbols())


def test_another_shape_than_pytorchs():
    found = relax.Var("found", relax.TensorType((3, 5), "float32"))
    with pytest.raises(TorchError, match=r"float32 of \(3, 5\); PyTorch says float32 of \(3, 4\)"):
        _check(found, torch.zeros(3, 4), Symbols())
