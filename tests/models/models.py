"""Small real architectures with random weights, and what to feed them."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

os.environ.setdefault("HF_HUB_OFFLINE", "1")

__all__ = ["SmallCNN", "bert", "gpt2", "llama", "qwen2", "t5_encoder", "vit"]


def _transformers() -> Any:
    import transformers

    transformers.logging.set_verbosity_error()
    return transformers


def _decoder(config_name: str, model_name: str, **extra: Any) -> nn.Module:
    t = _transformers()
    torch.manual_seed(0)
    config = getattr(t, config_name)(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        **extra,
    )
    model: nn.Module = getattr(t, model_name)(config).eval()
    return model


def llama() -> nn.Module:
    """Llama with two layers, grouped-query attention."""
    return _decoder("LlamaConfig", "LlamaForCausalLM")


def qwen2() -> nn.Module:
    """Qwen2 with two layers (biases on q, k, v)."""
    return _decoder("Qwen2Config", "Qwen2ForCausalLM")


def bert() -> nn.Module:
    """BERT with two layers."""
    t = _transformers()
    torch.manual_seed(0)
    config = t.BertConfig(
        vocab_size=128, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
    )
    model: nn.Module = t.BertModel(config).eval()
    return model


def gpt2() -> nn.Module:
    """GPT-2 with two layers."""
    t = _transformers()
    torch.manual_seed(0)
    model: nn.Module = t.GPT2LMHeadModel(
        t.GPT2Config(vocab_size=128, n_embd=64, n_layer=2, n_head=4, n_positions=64)
    ).eval()
    return model


def t5_encoder() -> nn.Module:
    """The encoder of T5 with two layers."""
    t = _transformers()
    torch.manual_seed(0)
    model: nn.Module = t.T5EncoderModel(
        t.T5Config(vocab_size=128, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4)
    ).eval()
    return model


def vit() -> nn.Module:
    """A vision transformer with two layers on 32x32 images."""
    t = _transformers()
    torch.manual_seed(0)
    config = t.ViTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=32, patch_size=8
    )
    model: nn.Module = t.ViTModel(config).eval()
    return model


class _Block(nn.Module):
    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 2 * channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(2 * channels)
        self.conv2 = nn.Conv2d(2 * channels, 2 * channels, 3, 1, 1, groups=2, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * channels)
        self.down = nn.Conv2d(channels, 2 * channels, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.down(x))


class SmallCNN(nn.Module):
    """A small residual network: convolutions with and without groups, batch norm, pooling, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.Sequential(_Block(8, 1), _Block(16, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.stem(x)), 2)
        x = nn.functional.avg_pool2d(self.blocks(x), 2)
        out: torch.Tensor = self.head(self.pool(x).flatten(1))
        return out
