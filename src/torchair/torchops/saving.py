"""``save_npugraph_tensor``: a tensor written to a file while a graph runs (specification, F-45).

``torch.ops.air.save_tensor`` is what a traced function holds. Like a print it has its place in the order of the graph,
and sees a tensor as it is there.
"""

from __future__ import annotations

import io
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchair.files import write_file
from torchair.torchops.library import define
from torchair.torchops.refusing import refuse_type, refuse_value

__all__ = ["save_npugraph_tensor", "save_tensor"]

_DEFAULT = "./npugraph_tensor.pt"

_counts: Counter[tuple[str, int]] = Counter()
_lock = threading.Lock()


def _save(x: Tensor, path: str) -> None:
    device = x.device.index or 0
    file = Path(path)
    key = str(Path.cwd() / file), device
    with _lock:
        count = _counts[key]
        _counts[key] += 1
    value = x.detach().to("cpu").resolve_conj().resolve_neg()
    if file.suffix == ".bin":
        data = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    else:
        buffer = io.BytesIO()
        torch.save(value.clone(), buffer)  # a view alone would bring all of its storage along
        data = buffer.getvalue()
    write_file(file.with_name(f"{file.stem}_device_{device}_{count}{file.suffix}"), data)


save_tensor: Any = define("save_tensor(Tensor x, str path) -> ()", _save, lambda x, path: None, ordered=True)


def save_npugraph_tensor(tensor: Tensor, *, save_path: str | None = None) -> None:
    """Write a tensor to a file each time that a graph runs, without a graph break; in eager mode at once.

    The n-th time, counted from 0, ``out/x.pt`` becomes ``out/x_device_0_n.pt``: the number of the device, and n.

    Args:
        tensor: What is written, as it is at that place of the program.
        save_path: Where: ``.pt`` can be read by ``torch.load``, ``.bin`` holds the elements alone, in order. The folder
            is created. ``./npugraph_tensor.pt`` when omitted.

    Raises:
        ArgumentTypeError: An argument is of another kind.
        ArgumentError: The path ends in something else.
        OutputFileError: The file cannot be written (when the graph runs).
    """
    if not isinstance(tensor, Tensor):
        refuse_type(
            "save_npugraph_tensor takes a tensor",
            f"it was given {tensor!r}, a {type(tensor).__name__}",
            "torch.as_tensor(value) makes a tensor of a number.",
        )
    path = _DEFAULT if save_path is None else save_path
    if not isinstance(path, str):
        refuse_type(
            "The save_path of save_npugraph_tensor is a string",
            f"it was given {path!r}, a {type(path).__name__}",
            'save_path="./x.pt"',
        )
    if (
        not path.endswith((".pt", ".bin"))
        or "\0" in path
        or path.endswith(("/.pt", "/.bin"))
        or path in (".pt", ".bin")
    ):
        refuse_value(
            "The save_path of save_npugraph_tensor names no .pt or .bin file",
            f"it was given {path!r}",
            'save_path="./x.pt", or "./x.bin" for the elements alone.',
        )
    save_tensor(tensor, path)
