"""Matrix products of few rows with what follows them, and attention of few queries."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch

from torchair.native.emitter import COLUMNS, RESULTS, Block, Emitter
from torchair.native.formulas import C_TYPES, VALUE_TYPES, constant_text
from torchair.native.operations import Product, Strided
from torchair.native.statements import factor, indented, offset_pointer, plain, pragma, stored

__all__ = ["AttentionEmitter", "ProductsEmitter"]


class ProductsEmitter(Emitter):
    """A loop over blocks of results, computed by a function of the support library."""

    def _body(self) -> list[str]:
        group = self._group
        first = group.products[0]
        m, k, n = first.sizes
        top = Block()
        # Axes of the results that are not of size 1: rows, columns.
        variables = iter(group.variables)
        row_variable = next(variables) if m != 1 else None
        column_variable = next(variables) if n != 1 else None
        width, depth = plain(self._position(n, top)), plain(self._position(k, top))
        row_name, column = self._new_name("i"), self._new_name("i")
        if row_variable is not None:
            self._variables[row_variable] = row_name
        if column_variable is not None:
            self._variables[column_variable] = column
        calls, blocks = [], []
        for i, p in enumerate(group.products):
            blocks.append(f"{VALUE_TYPES[p.out.dtype]} sums{i}[{m * COLUMNS}];")
            calls.append(self._product_call(p, f"sums{i}", depth, top))
            self._results[p.out] = self._builder.variable(
                f"sums{i}[{row_name} * {COLUMNS} + {column} - first]",
                p.out.dtype,
                frozenset({RESULTS, *group.variables}),
            )
        block = Block(outer=top, variables=frozenset({RESULTS, *group.variables}))
        for p in group.products:
            if p.out in self._stored:
                index: list[sympy.Expr] = [sympy.S.Zero if v is None else v for v in (row_variable, column_variable)]
                place = f"{self._pointer(p.out)}[{plain(self._position(p.out.offset(index), block))}]"
                block.lines.append(stored(place, str(self._results[p.out].value), p.out.dtype))
        self._member_statements(group.members, block)
        return [
            *self._unless_empty([n], top),
            f"const tair::Range mine = tair::share({width}, worker, workers, {COLUMNS});",
            *blocks,
            f"for (int64_t first = mine.begin; first < mine.end; first += {COLUMNS}) {{",
            *indented(
                [
                    f"const int64_t last = tair::minimum<int64_t>(first + {COLUMNS}, mine.end);",
                    *calls,
                    f"for (int64_t {row_name} = 0; {row_name} < {m}; ++{row_name}) {{",
                    pragma(block.lines),
                    *indented(
                        [
                            f"for (int64_t {column} = first; {column} < last; ++{column}) {{",
                            *indented(block.lines),
                            "}",
                        ]
                    ),
                    "}",
                ]
            ),
            "}",
        ]

    def _product_call(self, p: Product, sums: str, depth: str, block: Block) -> str:
        m = p.sizes[0]
        left = offset_pointer(self._pointer(p.left.buffer), self._position(p.left.start, block))
        right = offset_pointer(self._pointer(p.right.buffer), self._position(p.right.start, block))
        leading = plain(self._position(p.left.strides[0], block))
        if p.right.strides[0] == 1:
            step = plain(self._position(p.right.strides[1], block))
            return (
                f"tair::dot_rows({left}, {leading}, {m}, {right} + first * {factor(step)}, {step}, {depth}, "
                f"last - first, {sums}, {COLUMNS}, mine.end - first);"
            )
        step = plain(self._position(p.right.strides[0], block))
        return (
            f"tair::dot_columns({left}, {leading}, {m}, {right} + first, {step}, {depth}, "
            f"last - first, {sums}, {COLUMNS});"
        )


class AttentionEmitter(Emitter):
    """A call of the support library."""

    def _body(self) -> list[str]:
        a = self._group.attention
        assert a is not None
        top = Block()

        def text(position: sympy.Expr) -> str:
            return plain(self._position(position, top))

        def operand(pointer: str, strides: Sequence[sympy.Expr]) -> str:
            return f"{{{pointer}, {{{', '.join(text(s) for s in strides)}}}}}"

        def given(o: Strided) -> str:
            return operand(offset_pointer(self._pointer(o.buffer), self._position(o.start, top)), o.strides)

        element = C_TYPES[a.out.dtype]
        sizes = ", ".join(text(s) for s in a.sizes)
        mask_element = element if a.mask is None else C_TYPES[a.mask.buffer.dtype]
        lines = [
            f"const tair::Attention<{element}, {mask_element}> call = {{",
            f"  {sizes},",
            *(f"  {given(o)}," for o in (a.query, a.key, a.value)),
            f"  {'{nullptr, {0, 0, 0, 0}}' if a.mask is None else given(a.mask)},",
            f"  {operand(self._pointer(a.out), a.out.strides)},",
            f"  {constant_text(a.scale, torch.float64)}, {'true' if a.causal else 'false'}}};",
            "tair::attention(call, worker, workers);",
        ]
        return [*top.lines, *lines]
