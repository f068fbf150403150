"""Batches of texts padded on the left: what pads them sees no key, and harms nobody."""

import pytest
from library_stand_in import folder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, Settings  # noqa: E402
from tvm_stitch.kernel.attention.build import AttentionKernels  # noqa: E402
from tvm_stitch.library import locate, shim  # noqa: E402

WORDS, MOST, NEW = 100, 64, 3


@pytest.fixture(autouse=True)
def _libraries(monkeypatch):
    torch._dynamo.reset()
    monkeypatch.setenv(locate.FOLDER, str(folder()))
    shim.use_found(shim.load())


def llama(depth):
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=depth,
            vocab_size=WORDS,
            max_position_embeddings=MOST,
        )
    )


def gpt2(depth):
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            n_embd=2 * depth, n_layer=2, n_head=2, vocab_size=WORDS, n_positions=MOST
        )
    )


def generated(model, cache, words, seen):
    """The next words of each text, and how likely all were at each of them."""
    how = {}
    if cache == "static":
        longest = words.shape[1] + NEW
        how["past_key_values"] = transformers.StaticCache(model.config, longest)
    with torch.no_grad():
        found = model.generate(
            words, attention_mask=seen, max_new_tokens=NEW, do_sample=False, disable_compile=True,
            pad_token_id=0, eos_token_id=None, output_logits=True, return_dict_in_generate=True,
            **how,
        )  # fmt: skip
    return found.sequences, torch.stack(found.logits)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "depth", "length", "cache", "is_one_kernel"),
    [
        (llama, 16, 9, "dynamic", False),
        (llama, 64, 40, "static", True),
        (gpt2, 16, 9, "dynamic", True),
        (gpt2, 16, 9, "static", False),
    ],
)
def test_greedy_words_are_those_of_pytorch(monkeypatch, make, depth, length, cache, is_one_kernel):
    torch.manual_seed(0)
    model = make(depth).half().eval()
    words = torch.randint(1, WORDS, (2, length))
    seen = torch.ones_like(words)
    words[0, : length // 2] = seen[0, : length // 2] = 0
    wanted, likely = generated(model, cache, words, seen)
    made, make = [], AttentionKernels.kernel
    monkeypatch.setattr(
        AttentionKernels, "kernel", lambda *given: made.append(given) or make(*given)
    )
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    model.forward = torch.compile(model.forward, backend=ours)
    found, own = generated(model, cache, words, seen)
    assert torch.equal(found, wanted)
    torch.testing.assert_close(own, likely, rtol=0, atol=4e-3)
    assert ours.log.report().parts and bool(made) == is_one_kernel
