from __future__ import annotations

import torch

from tests.convert.conversion import check

ARRAY = torch.randn(3, 4, 6, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))


def test_forward_transforms_equal_eager():
    def f(x):
        return torch.fft.fft(x), torch.fft.fft2(x), torch.fft.fft(x, dim=0), torch.fft.fft2(x, dim=(2, 0))

    check(f, ARRAY, ops=["FFT", "FFT2D", "Transpose"], unconverted_ops="error")
    check(f, ARRAY.to(torch.complex128), unconverted_ops="error")
    check(f, ARRAY, dynamic=True, unconverted_ops="error")


def test_other_transforms_stay_torch_calls():
    def f(x):
        return (
            torch.fft.ifft(x),
            torch.fft.fftn(x),
            torch.fft.fft(x, norm="ortho"),
            torch.fft.rfft(x.real),
            torch.fft.irfft(x),
        )

    (graph,) = check(f, ARRAY)
    assert [node.call.target.split(".")[0] for node in graph if node.call] == [
        "aten::_fft_c2c",
        "aten::_fft_c2c",
        "aten::_fft_c2c",
        "aten::_fft_r2c",
        "aten::_fft_c2r",
    ]
