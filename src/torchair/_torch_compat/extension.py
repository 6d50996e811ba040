"""What a C++ extension of torch is compiled with."""

from __future__ import annotations

import torch

__all__ = [
    "extension_facts",
    "extension_flags",
    "kernel_flags",
    "torch_version",
]


def extension_flags() -> list[str]:
    """Flags of the C++ compiler for a Python extension that uses torch's C++ interface."""
    import sysconfig

    from torch.utils import cpp_extension

    abi = int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    includes = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    libraries = cpp_extension.library_paths()
    return [
        f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
        *(f"-isystem{path}" for path in includes),
        *(flag for path in libraries for flag in (f"-L{path}", f"-Wl,-rpath,{path}")),
        *("-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"),
    ]


def kernel_flags() -> list[str]:
    """Flags for a source that calls ATen's kernels for the instruction set of the CPU: which sets torch was built for.

    They decide a function's signature, so a wrong guess shows when the library is loaded.
    """
    import platform

    if platform.machine().lower() in ("x86_64", "amd64"):
        return ["-DHAVE_AVX2_CPU_DEFINITION", "-DHAVE_AVX512_CPU_DEFINITION"]
    return []


def extension_facts() -> list[str]:
    """What a compiled extension depends on besides its source, its flags and the compiler."""
    import sysconfig

    return [torch.__version__, str(torch.version.git_version), str(sysconfig.get_config_var("EXT_SUFFIX"))]


def torch_version() -> tuple[int, int]:
    """Major and minor version."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)
