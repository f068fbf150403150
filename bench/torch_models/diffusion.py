"""Models of diffusion: denoisers and the autoencoder around them, of diffusers, random weights."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from bench.torch_models.model import Inputs, Model, Size, noise

WORDS, WIDTH = 77, 768  # of a prompt, as CLIP encodes it
_Settings = dict[str, Any]


class _Sample(nn.Module):
    """A denoiser, or an autoencoder's half, that returns a tensor."""

    def __init__(self, model: nn.Module, way: str = "forward") -> None:
        super().__init__()
        self.model, self.way = model, way

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        found = getattr(self.model, self.way)(**inputs, return_dict=False)[0]
        return found.mode() if self.way == "encode" else found


class _WithText(nn.Module):
    """A denoiser that is told of the prompt as a whole, and of the picture's size, besides."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, text_embeds: torch.Tensor, time_ids: torch.Tensor, **inputs: torch.Tensor
    ) -> torch.Tensor:
        added = {"text_embeds": text_embeds, "time_ids": time_ids}
        found: torch.Tensor = self.model(**inputs, added_cond_kwargs=added, return_dict=False)[0]
        return found


def _made(kind: str, size: Size, small: _Settings, real: _Settings) -> nn.Module:
    model: nn.Module = getattr(importlib.import_module("diffusers"), kind)(
        **(small if size.small else real)
    )
    return model


def _blocks(down: str, up: str) -> _Settings:
    """Stages of a denoiser, by the first letters of their kinds: cross, attention or neither."""
    kinds = {"c": "CrossAttn", "a": "Attn", "-": ""}
    return {
        "down_block_types": tuple(f"{kinds[each]}DownBlock2D" for each in down),
        "up_block_types": tuple(f"{kinds[each]}UpBlock2D" for each in up),
    }


def _sample(size: Size, channels: int) -> Inputs:
    sample = noise("sample", size.batch, channels, size.length, size.length)
    return {**sample, "timestep": torch.tensor(17)}


def _stable_diffusion(size: Size) -> nn.Module:
    small = {
        "sample_size": 16, "cross_attention_dim": 64, "attention_head_dim": 8,
        "block_out_channels": (32, 64), "layers_per_block": 1, **_blocks("c-", "-c"),
    }  # fmt: skip
    real = {"sample_size": 64, "cross_attention_dim": WIDTH, "attention_head_dim": 8}
    return _Sample(_made("UNet2DConditionModel", size, small, real))


def _prompt(size: Size, words: int, width: int) -> Inputs:
    return noise("encoder_hidden_states", size.batch, words, width, seed=2)


def _of_stable_diffusion(size: Size) -> Inputs:
    return {**_sample(size, 4), **_prompt(size, *((7, 64) if size.small else (WORDS, WIDTH)))}


def _sdxl(size: Size) -> nn.Module:
    told = {"addition_embed_type": "text_time", "use_linear_projection": True}
    small = {
        **told, "sample_size": 16, "cross_attention_dim": 64, "attention_head_dim": (2, 4),
        "block_out_channels": (32, 64), "layers_per_block": 1, **_blocks("-c", "c-"),
        "transformer_layers_per_block": (1, 1), "addition_time_embed_dim": 32,
        "projection_class_embeddings_input_dim": 6 * 32 + 64,
    }  # fmt: skip
    real = {
        **told, "sample_size": 64, "cross_attention_dim": 2048, "attention_head_dim": (5, 10, 20),
        "block_out_channels": (320, 640, 1280), **_blocks("-cc", "cc-"),
        "transformer_layers_per_block": (1, 2, 10), "addition_time_embed_dim": 256,
        "projection_class_embeddings_input_dim": 6 * 256 + 1280,
    }  # fmt: skip
    return _WithText(_made("UNet2DConditionModel", size, small, real))


def _of_sdxl(size: Size) -> Inputs:
    return {
        **_sample(size, 4),
        **_prompt(size, *((7, 64) if size.small else (WORDS, 2048))),
        **noise("text_embeds", size.batch, 64 if size.small else 1280),
        "time_ids": torch.tensor([[1024.0, 1024, 0, 0, 1024, 1024]] * size.batch),
    }


def _autoencoder(size: Size, way: str) -> nn.Module:
    widths = (32, 64) if size.small else (128, 256, 512, 512)
    own = {
        "block_out_channels": widths,
        "down_block_types": ("DownEncoderBlock2D",) * len(widths),
        "up_block_types": ("UpDecoderBlock2D",) * len(widths),
        "layers_per_block": 1 if size.small else 2,
        "latent_channels": 4,
    }
    return _Sample(_made("AutoencoderKL", size, own, own), way)


def _decoded(size: Size) -> Inputs:
    return noise("z", size.batch, 4, size.length, size.length)


def _encoded(size: Size) -> Inputs:
    return noise("x", size.batch, 3, size.length, size.length)


def _dit(size: Size) -> nn.Module:
    own = {"sample_size": size.length, "in_channels": 4, "out_channels": 8}
    small = {**own, "num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2}
    real = {**own, "num_attention_heads": 16, "attention_head_dim": 72, "num_layers": 28}
    return _Sample(_made("DiTTransformer2DModel", size, small, real))


def _of_dit(size: Size) -> Inputs:
    return {
        **noise("hidden_states", size.batch, 4, size.length, size.length),
        "timestep": torch.full((size.batch,), 17),
        "class_labels": torch.arange(size.batch),
    }


def _sd3(size: Size) -> nn.Module:
    own = {"sample_size": size.length, "pos_embed_max_size": size.length}
    small = {
        **own, "num_layers": 2, "attention_head_dim": 16, "num_attention_heads": 2,
        "joint_attention_dim": 64, "caption_projection_dim": 32, "pooled_projection_dim": 64,
    }  # fmt: skip
    real = {
        **own, "num_layers": 12, "attention_head_dim": 64, "num_attention_heads": 24,
        "joint_attention_dim": 4096, "caption_projection_dim": 1536, "pooled_projection_dim": 2048,
    }  # fmt: skip
    return _Sample(_made("SD3Transformer2DModel", size, small, real))


def _of_sd3(size: Size) -> Inputs:
    words, width, pooled = (9, 64, 64) if size.small else (2 * WORDS, 4096, 2048)
    return {
        **noise("hidden_states", size.batch, 16, size.length, size.length),
        "timestep": torch.full((size.batch,), 17.0),
        **_prompt(size, words, width),
        **noise("pooled_projections", size.batch, pooled, seed=3),
    }


def _ddpm(size: Size) -> nn.Module:
    own = {"sample_size": size.length, "in_channels": 3, "out_channels": 3}
    small = {**own, "block_out_channels": (32, 64), "layers_per_block": 1, **_blocks("-a", "a-")}
    real = {**own, "block_out_channels": (128, 256, 256, 512), **_blocks("--a-", "-a--")}
    return _Sample(_made("UNet2DModel", size, small, real))


_Make = Callable[[Size], nn.Module]


def models() -> list[Model]:
    """All of diffusers."""
    decoder, encoder = (partial(_autoencoder, way=way) for way in ("decode", "encode"))
    made: list[tuple[str, _Make, Callable[[Size], Inputs], tuple[int, int], int]] = [
        ("stable-diffusion", _stable_diffusion, _of_stable_diffusion, (2, 64), 16),
        ("sdxl", _sdxl, _of_sdxl, (2, 64), 16),
        ("vae-decode", decoder, _decoded, (1, 64), 8),
        ("vae-encode", encoder, _encoded, (1, 512), 32),
        ("dit", _dit, _of_dit, (4, 32), 8),
        ("sd3", _sd3, _of_sd3, (2, 64), 8),
        ("ddpm", _ddpm, partial(_sample, channels=3), (8, 64), 16),
    ]
    return [
        Model(name, make, inputs, Size(*real), Size(1, small, True), "diffusers")
        for name, make, inputs, real, small in made
    ]
