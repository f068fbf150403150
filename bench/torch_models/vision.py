"""Models of pictures: of transformers and timm, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from bench.torch_models.language import Loss, Plain, built
from bench.torch_models.model import GENTLE, Inputs, Model, Size, noise, tokens

CLASSES = 10
BATCH = {"pixel_values": {0: "batch"}}
_SMALL = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip
_STAGES = {"hidden_sizes": [16, 32], "depths": [1, 1]}
_SMALL_IMAGE, _REAL_IMAGE = Size(2, 32, True), Size(8, 224)


def _image(size: Size) -> Inputs:
    return noise("pixel_values", size.batch, 3, size.length, size.length)


def _labelled(size: Size) -> Inputs:
    generator = torch.Generator().manual_seed(2)
    labels = torch.randint(0, CLASSES, (size.batch,), generator=generator)
    return {**_image(size), "labels": labels}


def _text_and_image(size: Size) -> Inputs:
    words = tokens(size.batch, 16 if size.small else 77, 999)
    words["input_ids"][:, -1] = 999
    return {**words, **_image(size)}


def _hf(name: str, kind: str, small: dict[str, Any], **more: Any) -> Model:
    def make(size: Size) -> nn.Module:
        return Plain(built(f"{kind}Config", f"{kind}Model", **(small if size.small else {})))

    return Model(name, make, _image, _REAL_IMAGE, _SMALL_IMAGE, "transformers", **more)


def _classifier(kind: str, small: dict[str, Any]) -> Callable[[Size], nn.Module]:
    def make(size: Size) -> nn.Module:
        sizes = small if size.small else {}
        return Loss(built(f"{kind}Config", f"{kind}ForImageClassification", **sizes,
                          num_labels=CLASSES))  # fmt: skip

    return make


class _Picture(nn.Module):
    """A model of timm under the name that inputs have here."""

    def __init__(self, name: str) -> None:
        super().__init__()
        import timm

        self.model = timm.create_model(name, pretrained=False, num_classes=CLASSES)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """The logits."""
        return self.model(pixel_values)


def _timm(name: str, model: str, small: int = 64) -> Model:
    return Model(name, lambda size: _Picture(model), _image, _REAL_IMAGE, Size(2, small, True),
                 "timm")  # fmt: skip


def _clip(size: Size) -> nn.Module:
    text = {**_SMALL, "vocab_size": 1000, "eos_token_id": 999, "bos_token_id": 0, "pad_token_id": 1}
    for key in ("image_size", "patch_size"):
        text.pop(key)
    given: dict[str, Any] = {}
    if size.small:
        given = {"text_config": text, "vision_config": _SMALL, "projection_dim": 32}
    return Plain(built("CLIPConfig", "CLIPModel", **given))


def models() -> list[Model]:
    """All of them."""
    resnet = {**_STAGES, "embedding_size": 16, "layer_type": "basic"}
    swin = {"image_size": 32, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4],
            "window_size": 4}  # fmt: skip
    segformer = {"hidden_sizes": [16, 32, 32, 32], "depths": [1, 1, 1, 1],
                 "decoder_hidden_size": 32}  # fmt: skip
    return [
        _hf("vit", "ViT", _SMALL, trained=_classifier("ViT", _SMALL), trained_on=_labelled,
            dynamic=BATCH, rate=GENTLE),
        _hf("deit", "DeiT", _SMALL),
        _hf("dinov2", "Dinov2", _SMALL),
        _hf("beit", "Beit", _SMALL),
        _hf("convnext", "ConvNext", _STAGES | {"num_stages": 2}),
        _hf("resnet", "ResNet", resnet, trained=_classifier("ResNet", resnet),
            trained_on=_labelled, dynamic=BATCH, rate=GENTLE),
        _hf("regnet", "RegNet", _STAGES | {"embedding_size": 16, "groups_width": 8}),
        _hf("mobilenet-v2", "MobileNetV2", {"image_size": 32}),
        _hf("swin", "Swin", swin),
        _hf("segformer", "Segformer", segformer),
        Model("clip", _clip, _text_and_image, Size(4, 224), _SMALL_IMAGE, "transformers"),
        _hf("convnextv2", "ConvNextV2", _STAGES | {"num_stages": 2}),
        _hf("poolformer", "PoolFormer", {"hidden_sizes": [16, 32, 32, 32],
                                         "depths": [1, 1, 1, 1]}),
        _hf("siglip", "SiglipVision", _SMALL),
        _timm("timm-resnet50", "resnet50"),
        _timm("timm-convnext", "convnext_tiny"),
        _timm("timm-mobilenet-v3", "mobilenetv3_large_100"),
        _timm("timm-efficientnet", "efficientnet_b0"),
        _timm("timm-regnet", "regnety_002"),
        _timm("timm-maxvit", "maxvit_rmlp_pico_rw_256", small=256),
        _timm("timm-mixer", "mixer_s32_224", small=224),
        _timm("timm-densenet", "densenet121"),
        _timm("timm-vgg", "vgg11_bn"),
        _timm("timm-mobilevit", "mobilevit_xxs"),
        _timm("timm-inception", "inception_v3", small=128),
        _timm("timm-vit", "vit_tiny_patch16_224", small=224),
        _timm("timm-swin", "swin_tiny_patch4_window7_224", small=224),
    ]  # fmt: skip
