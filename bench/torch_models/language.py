"""Models of language and of sound: of transformers, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from bench.torch_models.model import Inputs, Model, Size, noise, padding, tokens

VOCABULARY = 1000
BATCH_AND_LENGTH = {"input_ids": {0: "batch", 1: "length"}}
# Encoders and decoders take the same names for their sizes but a few.
_SMALL = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 128,
}  # fmt: skip
_DECODER = {
    "vocab_size": 32000, "hidden_size": 2048, "num_hidden_layers": 8, "num_attention_heads": 16,
    "num_key_value_heads": 4, "intermediate_size": 5632,
}  # fmt: skip
_SMALL_DECODER = {**_SMALL, "num_key_value_heads": 2}
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


class Plain(nn.Module):
    """A model that returns tensors, without a cache of what went by."""

    def __init__(self, model: nn.Module, **given: Any) -> None:
        super().__init__()
        self.model, self.given = model, given

    def forward(self, **inputs: torch.Tensor) -> Any:
        """Whatever tensors the model returns."""
        return tuple(self.model(**inputs, **self.given, return_dict=False))


class Loss(nn.Module):
    """A model that is given labels, and its loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        """The loss alone."""
        return self.model(**inputs).loss


class Step(nn.Module):
    """One token more, behind keys and values of those before it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, keys: Any, values: Any) -> torch.Tensor:
        """The logits of the next token; keys and values come by layer."""
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer in range(keys.shape[0]):
            cache.update(keys[layer], values[layer], layer)
        return self.model(input_ids=input_ids, past_key_values=cache).logits


def built(config: str, model: str, **given: Any) -> nn.Module:
    """A model of transformers from its configuration."""
    import transformers

    return getattr(transformers, model)(getattr(transformers, config)(**given))


def _plain(
    config: str, model: str, real: dict[str, Any], small: dict[str, Any], **call: Any
) -> Callable[[Size], nn.Module]:
    return lambda size: Plain(built(config, model, **(small if size.small else real)), **call)


def _words(size: Size) -> Inputs:
    return tokens(size.batch, size.length, VOCABULARY)


def _masked(size: Size) -> Inputs:
    return {**_words(size), **padding(size.batch, size.length)}


def _labelled(size: Size) -> Inputs:
    return {
        **_words(size),
        **tokens(size.batch, size.length, VOCABULARY, "labels", seed=2),
    }


def _both(size: Size) -> Inputs:
    return {**_words(size), **tokens(size.batch, size.length, VOCABULARY, "decoder_input_ids", 3)}


def _sound(size: Size) -> Inputs:
    mel = noise("input_features", size.batch, 80, 2 * size.length)
    return {**mel, **tokens(size.batch, 16, VOCABULARY, "decoder_input_ids")}


def _one_more(heads: int, small_heads: int, layers: int) -> Callable[[Size], Inputs]:
    def inputs(size: Size) -> Inputs:
        count, kept, width = (2, small_heads, 16) if size.small else (layers, heads, 128)
        shape = (count, size.batch, kept, size.length, width)
        return {
            **tokens(size.batch, 1, VOCABULARY),
            **noise("keys", *shape),
            **noise("values", *shape),
        }

    return inputs


def _encoder(name: str, kind: str, batch: int = 8, **more: Any) -> Model:
    config, model = f"{kind}Config", f"{kind}Model"
    return Model(
        name, _plain(config, model, more, {**_SMALL, **more}), _masked, Size(batch, 128),
        Size(2, 16, True), "transformers",
    )  # fmt: skip


def _decoder(name: str, kind: str, masked: bool = False, **more: Any) -> Model:
    real, small = {**_DECODER, **more}, {**_SMALL_DECODER, **more}
    if "head_dim" in real:
        small["head_dim"] = 16
    return Model(
        name, _plain(f"{kind}Config", f"{kind}ForCausalLM", real, small, use_cache=False),
        _masked if masked else _words, Size(1, 512), Size(2, 16, True), "transformers",
        dynamic=None if masked else BATCH_AND_LENGTH,
    )  # fmt: skip


def _other(name: str, kind: str, real: dict[str, Any], small: dict[str, Any]) -> Model:
    """A decoder that has its own names for its sizes."""
    return Model(
        name, _plain(f"{kind}Config", f"{kind}ForCausalLM", real, small, use_cache=False), _words,
        Size(1, 512), Size(2, 16, True), "transformers",
    )  # fmt: skip


def _waves(size: Size) -> Inputs:
    return noise("input_values", size.batch, size.length)


def _gpt2(model: str, **more: Any) -> Callable[[Size], nn.Module]:
    def make(size: Size) -> nn.Module:
        small = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4}
        return built("GPT2Config", model, **(small if size.small else {}), **more)

    return make


def _one_step(kind: str) -> Callable[[Size], nn.Module]:
    def make(size: Size) -> nn.Module:
        sizes, width = (_SMALL_DECODER, 16) if size.small else (_DECODER, 128)
        return Step(built(f"{kind}Config", f"{kind}ForCausalLM", **sizes, head_dim=width))

    return make


def models() -> list[Model]:
    """All of them."""
    bert = _encoder("bert", "Bert")
    small_t5 = {
        "vocab_size": VOCABULARY, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2,
        "num_heads": 4,
    }  # fmt: skip
    small_bart = {
        "vocab_size": VOCABULARY, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128,
        "decoder_ffn_dim": 128,
    }  # fmt: skip
    small_whisper = {**small_bart, "max_source_positions": 32, "pad_token_id": 0,
                     "bos_token_id": 1, "eos_token_id": 2,
                     "decoder_start_token_id": 1}  # fmt: skip
    small_wav2vec = {
        **_SMALL, "conv_dim": [16, 16], "conv_kernel": [10, 3], "conv_stride": [5, 2],
        "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4,
    }  # fmt: skip
    small_mamba = {
        "vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 8,
    }  # fmt: skip
    real_mamba = {"vocab_size": VOCABULARY, "num_hidden_layers": 4}
    no_cache = {"use_cache": False}
    trained = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return [
        Model(
            "bert", bert.make, _masked, bert.real, bert.small, "transformers",
            lambda size: Loss(built(
                "BertConfig", "BertForMaskedLM", **(_SMALL if size.small else {}), **_NO_DROPOUT
            )),
            _labelled, BATCH_AND_LENGTH | {"attention_mask": {0: "batch", 1: "length"}},
        ),
        _encoder("roberta", "Roberta", pad_token_id=0, max_position_embeddings=514),
        _encoder("electra", "Electra"),
        _encoder("albert", "Albert"),
        Model(
            "distilbert",
            _plain("DistilBertConfig", "DistilBertModel", {},
                   {"vocab_size": VOCABULARY, "dim": 64, "n_layers": 2, "n_heads": 4,
                    "hidden_dim": 128}),
            _masked, Size(8, 128), Size(2, 16, True), "transformers",
        ),
        Model(
            "gpt2", lambda size: Plain(_gpt2("GPT2LMHeadModel")(size), **no_cache), _words,
            Size(4, 256), Size(2, 16, True), "transformers",
            lambda size: Loss(_gpt2("GPT2LMHeadModel", **trained)(size)), _labelled,
            BATCH_AND_LENGTH,
        ),
        _decoder("gpt-neox", "GPTNeoX", num_key_value_heads=None),
        _decoder("llama", "Llama"),
        _decoder("llama-mask", "Llama", masked=True),
        Model("llama-cache", _one_step("Llama"), _one_more(4, 2, 8), Size(1, 512),
              Size(2, 16, True), "transformers"),
        Model("qwen3-cache", _one_step("Qwen3"), _one_more(4, 2, 8), Size(1, 512),
              Size(2, 16, True), "transformers"),
        _decoder("mistral", "Mistral"),
        _decoder("qwen3", "Qwen3", head_dim=128),
        _decoder("qwen3-mask", "Qwen3", masked=True, head_dim=128),
        _decoder("gemma2", "Gemma2", head_dim=128),
        _decoder("phi3", "Phi3", pad_token_id=0),
        _decoder("mixtral", "Mixtral", num_local_experts=4),
        _decoder("qwen2-moe", "Qwen2Moe", num_experts=4, num_experts_per_tok=2,
                 moe_intermediate_size=64, shared_expert_intermediate_size=128),
        _decoder("granite", "Granite"),
        _decoder("olmo2", "Olmo2"),
        _decoder("cohere", "Cohere"),
        _decoder("starcoder2", "Starcoder2"),
        _other("falcon", "Falcon", {"hidden_size": 2048, "num_hidden_layers": 8,
                                    "num_attention_heads": 16}, _SMALL),
        _other("opt", "OPT", {}, {**_SMALL, "ffn_dim": 128, "word_embed_proj_dim": 64}),
        _other("bloom", "Bloom", {"hidden_size": 1024, "n_layer": 8, "n_head": 16},
               {"vocab_size": VOCABULARY, "hidden_size": 64, "n_layer": 2, "n_head": 4}),
        _other("gpt-j", "GPTJ", {"n_embd": 2048, "n_layer": 4, "n_head": 16},
               {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4,
                "rotary_dim": 8}),
        _other("rwkv", "Rwkv", {"hidden_size": 768, "num_hidden_layers": 4},
               {**_SMALL, "attention_hidden_size": 64}),
        _other("mamba2", "Mamba2", {"num_hidden_layers": 4},
               {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2,
                "state_size": 8, "num_heads": 8, "head_dim": 16, "n_groups": 1, "chunk_size": 4}),
        _encoder("deberta", "DebertaV2", relative_attention=True,
                 pos_att_type=["p2c", "c2p"]),
        _encoder("modernbert", "ModernBert", pad_token_id=0),
        _encoder("roformer", "RoFormer"),
        Model("xlnet", _plain("XLNetConfig", "XLNetModel", {},
                              {"vocab_size": VOCABULARY, "d_model": 64, "n_layer": 2, "n_head": 4,
                               "d_inner": 128}, use_mems=False),
              _masked, Size(8, 128), Size(2, 16, True), "transformers"),
        _encoder("xlm-roberta", "XLMRoberta", pad_token_id=0, max_position_embeddings=514),
        Model("wav2vec2", _plain("Wav2Vec2Config", "Wav2Vec2Model", {}, small_wav2vec), _waves,
              Size(2, 16000), Size(2, 400, True), "transformers"),
        Model("t5", _plain("T5Config", "T5Model", {}, small_t5, **no_cache), _both, Size(8, 128),
              Size(2, 16, True), "transformers"),
        Model("bart", _plain("BartConfig", "BartModel", {}, small_bart, **no_cache), _both,
              Size(4, 128), Size(2, 16, True), "transformers"),
        Model("whisper", _plain("WhisperConfig", "WhisperModel", {}, small_whisper, **no_cache),
              _sound, Size(1, 1500), Size(1, 32, True), "transformers"),
        Model("mamba", _plain("MambaConfig", "MambaModel", real_mamba, small_mamba, **no_cache),
              _words, Size(2, 64), Size(2, 8, True), "transformers"),
    ]  # fmt: skip
