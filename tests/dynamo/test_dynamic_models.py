"""A model of language whose batch and length are open: its launches, and right at three sizes."""

import numpy as np
import pytest
from check import H200

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.export import Dim, export  # noqa: E402

import tvm_stitch  # noqa: E402
from tvm_stitch.reference import reference  # noqa: E402
from tvm_stitch.verify import compare, stitched_for_cpu  # noqa: E402

WORDS, LAYERS = 100, 2
# Of known sizes, with 16 tokens, it is 11: the products of attention are small enough to stitch.
LAUNCHES, BEFORE = 18, 56


class Llama(torch.nn.Module):
    """A decoder of two layers, with a causal mask of its own and no cache."""

    def __init__(self):
        super().__init__()
        self.model = transformers.LlamaModel(
            transformers.LlamaConfig(
                hidden_size=64,
                intermediate_size=128,
                num_hidden_layers=LAYERS,
                num_attention_heads=4,
                num_key_value_heads=4,
                vocab_size=WORDS,
                attn_implementation="eager",
                max_position_embeddings=128,
            )
        ).eval()

    def forward(self, words):
        batch, length = words.shape
        mask = torch.full((length, length), -1e4).triu(1)
        return self.model(
            words,
            attention_mask=mask[None, None].expand(batch, 1, length, length),
            position_ids=torch.arange(length)[None].expand(batch, length),
            use_cache=False,
        )[0]


@pytest.mark.slow
def test_a_llama_of_any_batch_and_length():
    torch.manual_seed(0)
    words = torch.randint(WORDS, (2, 16))
    dims = {0: Dim("batch", min=2, max=64), 1: Dim("length", min=2, max=128)}
    module = tvm_stitch.torch.load(export(Llama(), (words,), dynamic_shapes=(dims,)))
    report = tvm_stitch.explain(module, H200)
    assert (report.before.launches, report.launches) == (BEFORE, LAUNCHES)
    stitched = stitched_for_cpu(module, H200, None)
    for shape in ((2, 3), (3, 16), (2, 33)):
        arrays = [np.random.default_rng(0).integers(0, WORDS, shape)]
        found = compare(module, stitched, H200, arrays, reference(module, arrays), 1)
        assert found.ok, f"{shape}: {found}"
