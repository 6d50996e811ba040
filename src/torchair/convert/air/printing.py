"""``npu_print`` as ``StringFormat`` and ``PrintV2`` (specification, F-78)."""

from __future__ import annotations

from collections.abc import Sequence

from torchair.convert.registry import register_fx_node_ge_converter
from torchair.ir import Value
from torchair.opset.builder import current_builder
from torchair.opset.text import PrintV2, StringFormat
from torchair.torchops.printing import print_


@register_fx_node_ge_converter(print_)
def print_tensors(
    x: Sequence[Value],
    template: str,
    placeholder: str = "{}",
    summarize_size: int = 3,
    tensor_detail: bool = False,
) -> None:
    """air::print(Tensor[] x, str template, str placeholder, int summarize_size, bool tensor_detail) -> ()"""
    operands = list(x)
    if tensor_detail:
        first, *rest = template.split(placeholder)
        template, operands = first, []
        for value, part in zip(x, rest, strict=True):
            detail, sizes = _detail(value, placeholder)
            template += detail + part
            operands += [value, *sizes]
    PrintV2(
        StringFormat(operands, template=template, placeholder=placeholder, summarize=summarize_size),
        output_stream="stdout",
    )


def _detail(value: Value, placeholder: str) -> tuple[str, list[Value]]:
    """``tensor({}, shape=[2, {}], dtype=torch.float32)``, with a placeholder and a number for each symbolic size."""
    sizes = [size for size in value.shape if not isinstance(size, int)]
    shape = ", ".join(str(size) if isinstance(size, int) else placeholder for size in value.shape)
    text = f"tensor({placeholder}, shape=[{shape}], dtype=torch.{value.dtype.torch_name})"
    return text, [current_builder().host(size) for size in sizes]
