"""More models among the cases: a Llama of ``transformers``, a layer of an encoder, a small convolutional network."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness import Unavailable, Workload, size_of

__all__ = ["build_cnn", "build_encoder_layer", "build_llama", "need_llama"]

# ---------------------------------------------------------------- Llama


def need_llama() -> None:
    """Check that ``transformers`` has the cache that is measured.

    Raises:
        Unavailable: It is not installed, or older than 5.
    """
    if importlib.util.find_spec("transformers") is None:
        raise Unavailable("transformers is not installed (pip install torchair[demo])")
    version = importlib.import_module("transformers").__version__
    if int(version.partition(".")[0]) < 5:
        raise Unavailable(f"transformers {version}: its StaticCache does not keep its length in a tensor; 5 is needed")


class LlamaStep(nn.Module):
    """One token through ``LlamaForCausalLM`` with a ``StaticCache``."""

    def __init__(self, model: nn.Module, cache: Any) -> None:
        super().__init__()
        self.model = model
        self.cache = cache
        takes = inspect.signature(model.forward).parameters
        self.name = "cache" if "cache" in takes else "past_key_values"  # of the argument; the second until 5.23
        for i, layer in enumerate(cache.layers):
            self.register_buffer(f"keys_{i}", layer.keys)
            self.register_buffer(f"values_{i}", layer.values)

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        """``token`` is ``[batch, 1]``, ``position`` ``[1]``; the result is ``[batch, 1, vocabulary]``."""
        # The cache counts its tokens; a call that is repeated has to start where the last one did.
        for layer in self.cache.layers:
            layer.cumulative_length.copy_(position.squeeze())
        cache = {self.name: self.cache}
        logits: Tensor = self.model(token, position_ids=position.unsqueeze(0), **cache).logits
        return logits


def build_llama(device: torch.device, batch: int = 1, positions: int = 256) -> Workload:
    """The shape of the decode step, with random weights; half of the cache is filled."""
    transformers: Any = importlib.import_module("transformers")
    config = transformers.LlamaConfig(
        vocab_size=4096,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=positions,
    )
    model = transformers.LlamaForCausalLM(config).eval().to(device)
    cache = transformers.StaticCache(config=config, max_cache_len=positions)
    cache.early_initialization(batch, 4, 64, torch.float32, device)
    filled = 0
    for layer in cache.layers:
        for tensor in (layer.keys, layer.values):
            tensor[:, :, : positions // 2].normal_()
            filled += size_of(tensor) // 2

    def inputs(seed: int) -> tuple[Tensor, ...]:
        token = (31 * seed + 17 + torch.arange(batch).unsqueeze(1)) % config.vocab_size
        return token.to(device), torch.tensor([positions // 2 + seed], device=device)

    embedding = size_of(model.get_input_embeddings().weight)
    return Workload(LlamaStep(model, cache), inputs, untouched=embedding + filled)


# ---------------------------------------------------------------- encoder layer


class EncoderLayer(nn.Module):
    """A layer of BERT base: 12 heads, 768 wide, 3072 within."""

    def __init__(self, width: int = 768, hidden: int = 3072, heads: int = 12) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.attention_norm = nn.LayerNorm(width, eps=1e-12)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: Tensor) -> Tensor:
        """``[batch, tokens, width]`` to the same."""
        batch, tokens, width = x.shape
        query, key, value = (
            project(x).view(batch, tokens, self.heads, -1).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        attended = nn.functional.scaled_dot_product_attention(query, key, value)
        x = self.attention_norm(x + self.output(attended.transpose(1, 2).reshape(batch, tokens, width)))
        result: Tensor = self.norm(x + self.down(nn.functional.gelu(self.up(x))))
        return result


def build_encoder_layer(device: torch.device) -> Workload:
    """One sequence of 128 tokens."""
    return Workload(EncoderLayer().eval().to(device), lambda seed: (_normal(seed, 1, 128, 768, device=device),))


# ---------------------------------------------------------------- convolutions


def build_cnn(device: torch.device) -> Workload:
    """Three blocks of convolution, batch norm, ReLU and pooling on a picture of 64x64, then ten classes."""
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        norm = nn.BatchNorm2d(after)
        assert norm.running_mean is not None
        nn.init.normal_(norm.running_mean, std=0.1)
        layers += [nn.Conv2d(before, after, 3, padding=1), norm, nn.ReLU(), nn.MaxPool2d(2)]
    model = Network(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).eval().to(device)
    return Workload(model, lambda seed: (_normal(seed, 1, 3, 64, 64, device=device),))


class Network(nn.Module):
    """Modules one after the other."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """``[1, 3, 64, 64]`` to ``[1, 10]``."""
        result: Tensor = self.layers(x)
        return result


def _normal(seed: int, *shape: int, device: torch.device) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device)
