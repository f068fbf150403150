"""Models whose batch and length are open: as many launches as static ones or fewer, and right."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from check import H200

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.export import Dim, export  # noqa: E402

import tvm_stitch  # noqa: E402
from tvm_stitch import Options  # noqa: E402
from tvm_stitch.kernel.ir.mapping import SCHEMES  # noqa: E402
from tvm_stitch.reference import reference  # noqa: E402
from tvm_stitch.verify import compare, stitched_for_cpu  # noqa: E402

WORDS, LAYERS, LONG = 100, 2, 512
EAGER = {"attn_implementation": "eager"}
WITHOUT_LIBRARY = Options(schemes=tuple(each for each in SCHEMES if each != "library"))


class Decoder(torch.nn.Module):
    """With a causal mask of its own and no cache."""

    def __init__(self, model):
        super().__init__()
        self.model = model.eval()

    def forward(self, words):
        batch, length = words.shape
        mask = torch.full((length, length), -1e4).triu(1)
        return self.model(
            words,
            attention_mask=mask[None, None].expand(batch, 1, length, length),
            position_ids=torch.arange(length)[None].expand(batch, length),
            use_cache=False,
        )[0]


class Encoder(torch.nn.Module):
    """With a mask of the words that there are."""

    def __init__(self, model):
        super().__init__()
        self.model = model.eval()

    def forward(self, words, mask):
        return self.model(input_ids=words, attention_mask=mask)[0]


def _llama():
    config = transformers.LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=4,
        vocab_size=WORDS,
        max_position_embeddings=LONG,
        **EAGER,
    )
    return Decoder(transformers.LlamaModel(config))


def _gpt2():
    config = transformers.GPT2Config(
        n_embd=64,
        n_layer=LAYERS,
        n_head=4,
        vocab_size=WORDS,
        n_positions=LONG,
        activation_function="gelu",  # with PyTorch's tanh there is nothing to compare with
        **EAGER,
    )
    return Decoder(transformers.GPT2Model(config))


def _bert():
    config = transformers.BertConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        vocab_size=WORDS,
        max_position_embeddings=LONG,
        **EAGER,
    )
    return Encoder(transformers.BertModel(config, add_pooling_layer=False))


def _t5():
    config = transformers.T5Config(
        d_model=64, d_kv=16, d_ff=128, num_layers=LAYERS, num_heads=4, vocab_size=WORDS, **EAGER
    )
    return Encoder(transformers.T5EncoderModel(config))


@dataclass(frozen=True)
class Dynamic:
    """A model, and its launches: of any batch and length, of 2 x 512 words, and before stitching.

    Some of TVM's schedules fail on the products of two of them, and others take their place.
    """

    model: Callable[[], torch.nn.Module]
    launches: int
    static: int
    before: int
    sizes: tuple[tuple[int, int], ...] = ((2, 3), (3, 16), (2, 33))


# Fewer of 16 words, 11 of a Llama: products of attention that are so small are stitched, and those
# of long ones by heads of 16. Of a long static GPT-2 the products of a layer are two kernels: they
# take 7.9 us and a launch, not 9.2.
MODELS = {
    "llama": Dynamic(_llama, 16, 18, 56),
    "gpt2": Dynamic(_gpt2, 13, 16, 65),
    "bert": Dynamic(_bert, 14, 14, 67),
    # Its positions are PyTorch's logarithms, of which there is no float64 reference.
    "t5": Dynamic(_t5, 14, 14, 56, sizes=()),
}


def _inputs(model: torch.nn.Module, batch: int, length: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    words = rng.integers(0, WORDS, (batch, length))
    if isinstance(model, Decoder):
        return [words]
    return [words, np.tile(np.arange(length) < max(1, length - 2), (batch, 1)).astype("int64")]


def _loaded(model: torch.nn.Module, batch: int, length: int, dynamic: bool):
    inputs = tuple(map(torch.from_numpy, _inputs(model, batch, length)))
    dims = {0: Dim("batch", min=2, max=64), 1: Dim("length", min=2, max=LONG)}
    shapes = (dims,) * len(inputs) if dynamic else None
    return tvm_stitch.torch.load(export(model, inputs, dynamic_shapes=shapes))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_of_any_batch_and_length(name):
    torch.manual_seed(0)
    expected, model = MODELS[name], MODELS[name].model()
    module = _loaded(model, 2, 16, dynamic=True)
    report = tvm_stitch.explain(module, H200)
    assert (report.before.launches, report.launches) == (expected.before, expected.launches)
    stitched = stitched_for_cpu(module, H200, None) if expected.sizes else None
    for size in expected.sizes:
        arrays = _inputs(model, *size)
        found = compare(module, stitched, H200, arrays, reference(module, arrays), 1)
        assert found.ok, f"{size}: {found}"


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_long_static_ones_launch_as_many_or_more(name):
    torch.manual_seed(0)
    expected = MODELS[name]
    module = _loaded(expected.model(), 2, LONG, dynamic=False)
    found = tvm_stitch.explain(module, H200, WITHOUT_LIBRARY).launches
    assert found == expected.static >= expected.launches


class AsItIs(torch.nn.Module):
    """A model of transformers that is given nothing but its input: masks and positions are its."""

    def __init__(self, model, **given):
        super().__init__()
        self.model, self.given = model.eval().to(torch.bfloat16), given

    def forward(self, given):
        return self.model(given, return_dict=False, **self.given)[0]


def _of_real_width(name: str) -> tuple[torch.nn.Module, torch.Tensor, dict[int, Dim]]:
    """Two layers of a model as wide as people have it, its input, and what is open of that."""
    batch, length = Dim("batch", min=2, max=64), Dim("length", min=2, max=LONG)
    if name == "vit":
        vit = transformers.ViTModel(transformers.ViTConfig(num_hidden_layers=LAYERS))
        return AsItIs(vit), torch.zeros(16, 3, 224, 224, dtype=torch.bfloat16), {0: batch}
    if name == "bert":
        bert = transformers.BertModel(transformers.BertConfig(num_hidden_layers=LAYERS))
        return AsItIs(bert), torch.zeros(8, 128, dtype=torch.int64), {0: batch, 1: length}
    config = transformers.LlamaConfig(
        vocab_size=1000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=LAYERS,
        num_attention_heads=16, num_key_value_heads=4,
    )  # fmt: skip
    llama = AsItIs(transformers.LlamaForCausalLM(config), use_cache=False)
    return llama, torch.zeros(2, 512, dtype=torch.int64), {0: batch, 1: length}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "llama", "vit"])
def test_of_sizes_that_are_stated_the_static_plan(name):
    """Llama could not be loaded: where documents begin is a running sum along its length."""
    model, given, dims = _of_real_width(name)
    static = tvm_stitch.torch.load(export(model, (given,)))
    module = tvm_stitch.torch.load(export(model, (given,), dynamic_shapes=(dims,)))
    shape = module["main"].params[0].ty.shape
    stated = {shape[dim].name: (given.shape[dim],) for dim in dims}
    expected = tvm_stitch.explain(static, H200, WITHOUT_LIBRARY).launches
    options = Options(schemes=WITHOUT_LIBRARY.schemes, extents=stated)
    assert tvm_stitch.explain(module, H200, options).launches <= expected
