"""Architectures of transformers, small and with random weights, eager and by this package.

`python -m tests.outside.architectures gpt_oss hiera` makes a model of each type from its own
configuration, two layers of 64, and compares what it returns with float64; `--train` compares the
gradients of all parameters. Each type has a process of its own. Needs transformers, and no GPU:
kernels run in the executor. Exit code 1: something was wrong.
"""

from __future__ import annotations

import argparse
import inspect
import subprocess
import sys
from typing import Any

import torch

from bench.torch_models.exact import Exact, errors, gradients_error, in_float64
from bench.torch_models.model import leaves, placed

Tensors = list[torch.Tensor]

SIZES = {
    64: ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "image_size"),
    32: ("embedding_size", "q_lora_rank"),
    2: ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers",
        "decoder_layers", "num_key_value_heads", "num_experts_per_tok"),
    4: ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
        "decoder_attention_heads", "num_experts", "num_local_experts", "n_routed_experts"),
    16: ("head_dim", "kv_lora_rank", "v_head_dim", "qk_rope_head_dim"),
    8: ("qk_nope_head_dim",),
    96: ("intermediate_size", "n_inner", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim"),
    48: ("moe_intermediate_size", "shared_expert_intermediate_size"),
    256: ("vocab_size",),
    128: ("max_position_embeddings", "n_positions"),
    0: ("pad_token_id",),
    1: ("bos_token_id", "decoder_start_token_id", "n_group", "topk_group"),
}  # fmt: skip
LAYERS = 2
MOST_PARAMETERS = 60_000_000
WORSE, EXACT = 1.5, 1e-5
"""How many times eager's error is right, and what always is."""


def shrunk(config: Any, depth: int = 0) -> Any:
    """The configuration with small sizes, and those that it is made of."""
    from transformers import PretrainedConfig

    for size, names in SIZES.items():
        for name in names:
            if type(getattr(config, name, None)) is int:
                setattr(config, name, size)
    for name in ("layer_types", "mlp_layer_types"):
        if isinstance(getattr(config, name, None), list):
            setattr(config, name, getattr(config, name)[:LAYERS])
    inner = [each for each in vars(config).values() if isinstance(each, PretrainedConfig)]
    for each in inner if depth < LAYERS else ():
        shrunk(each, depth + 1)
    return config


def made(name: str, dtype: torch.dtype) -> torch.nn.Module:
    """The model; weights that are all equal get noise, for routers of zeros have ties."""
    from transformers import AutoModel
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    torch.manual_seed(0)
    model = AutoModel.from_config(shrunk(CONFIG_MAPPING[name]())).to(dtype).eval()
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point() and tensor.numel() > 1 and tensor.min() == tensor.max():
            tensor.data.add_(0.05 * torch.randn_like(tensor))
    return model


def inputs_of(model: Any, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """What the model takes, by the name of its main input."""
    ids, config = torch.randint(3, 200, (2, 17)), model.config
    size = getattr(config, "image_size", 64)
    side = size if isinstance(size, int) else size[0]
    shapes = {
        "pixel_values": (2, getattr(config, "num_channels", 3), side, side),
        "input_values": (2, 4000),
        "input_features": (2, getattr(config, "num_mel_bins", 80), 200),
    }
    name = model.main_input_name
    found = {name: ids if name == "input_ids" else torch.randn(shapes[name], dtype=dtype)}
    if getattr(config, "is_encoder_decoder", False) and takes(model, "decoder_input_ids"):
        found["decoder_input_ids"] = ids[:, :9]
    return found


def takes(model: Any, name: str) -> bool:
    """Whether the model has an argument of that name."""
    return name in inspect.signature(model.forward).parameters


def answers(model: Any, called: Any, inputs: dict[str, torch.Tensor], trains: bool) -> Tensors:
    """The results, or the gradients of all parameters."""
    named = {"use_cache": False} if takes(model, "use_cache") else {}
    with torch.set_grad_enabled(trains):
        found = leaves(called(**inputs, **named))
        if not trains:
            return found
        model.zero_grad(set_to_none=True)
        sum(each.float().square().mean() for each in found if each.requires_grad).backward()
    return [each.grad for each in model.parameters() if each.grad is not None]


def distance(found: Tensors, exact: Tensors, trains: bool) -> float:
    """How far results or gradients are from what they should be."""
    return gradients_error(exact, found) if trains else errors(exact, found)[1]


def tried(name: str, dtype: torch.dtype, trains: bool) -> bool:
    """Compare one model, and say what came of it; whether it is right."""
    from tvm_stitch.dynamo.backend import GraphCompiler
    from tvm_stitch.dynamo.settings import EXECUTOR, Settings

    model = made(name, dtype)
    if sum(each.numel() for each in model.parameters()) > MOST_PARAMETERS:
        print(f"{name}: too large")
        return True
    inputs = inputs_of(model, dtype)
    eager, wide = answers(model, model, inputs, trains), in_float64(model)
    with Exact():
        exact = answers(wide, wide, placed(inputs, "cpu", torch.float64), trains)
    compiler = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    found = answers(model, torch.compile(model, backend=compiler), inputs, trains)
    own, others = (distance(each, exact, trains) for each in (found, eager))
    failed = [part.failure for part in compiler.log.report().parts if part.failure]
    is_right = not failed and own <= max(WORSE * others, EXACT)
    said = f"error {own:.1e}, eager's {others:.1e}"
    print(f"{name}: {'right' if is_right else 'WRONG'}, {said}", *failed, sep="; ", flush=True)
    return is_right


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser("tests.outside.architectures", description=__doc__)
    parser.add_argument("types", nargs="+", metavar="TYPE", help="as transformers names them")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "bfloat16"))
    parser.add_argument("--train", action="store_true", help="gradients, not results")
    parser.add_argument("--limit", type=float, default=300, help="seconds for each")
    options = parser.parse_args(argv)
    if len(options.types) == 1:
        return int(not tried(options.types[0], getattr(torch, options.dtype), options.train))
    again = ["--dtype", options.dtype, *(["--train"] if options.train else [])]
    failed = 0
    for name in options.types:
        command = [sys.executable, "-m", "tests.outside.architectures", name, *again]
        try:
            failed |= subprocess.run(command, timeout=options.limit).returncode != 0
        except subprocess.TimeoutExpired:
            print(f"{name}: the time was up")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
