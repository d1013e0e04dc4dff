"""What a report of a fault should say of a machine, in the lines of PyTorch's: `python -m nbgrad run -m torch.utils.collect_env`.

Nothing is asked of the network, and no more of the machine than what a program may read. What is not there says "Could not collect".
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.metadata import distributions
from typing import Any, NamedTuple

_LIBRARIES = (
    *[
        "torch",
        "nbgrad",
        "numpy",
        "numba",
        "numba-cuda",
        "llvmlite",
        "scipy",
        "triton",
        "mypy",
        "mypy-extensions",
        "optree",
        "onnx",
    ],
    *("flake8", "cuda-core", "cuda-bindings"),
)

env_info_fmt = """
PyTorch version: {torch_version}
Is debug build: {is_debug_build}
CUDA used to build PyTorch: {cuda_compiled_version}
ROCM used to build PyTorch: {hip_compiled_version}

OS: {os}
GCC version: {gcc_version}
Clang version: {clang_version}
CMake version: {cmake_version}
Libc version: {libc_version}

Python version: {python_version}
Python platform: {python_platform}
Is CUDA available: {is_cuda_available}
CUDA runtime version: {cuda_runtime_version}
CUDA_MODULE_LOADING set to: {cuda_module_loading}
GPU models and configuration: {nvidia_gpu_models}
Nvidia driver version: {nvidia_driver_version}
cuDNN version: {cudnn_version}
Is XPU available: {is_xpu_available}
HIP runtime version: {hip_runtime_version}
MIOpen runtime version: {miopen_runtime_version}
Is XNNPACK available: {is_xnnpack_available}
Caching allocator config: {caching_allocator_config}

CPU:
{cpu_info}

Versions of relevant libraries:
{pip_packages}
{conda_packages}
""".strip()


class SystemEnv(NamedTuple):
    """All that is told."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str
    gcc_version: str | None
    clang_version: str | None
    cmake_version: str | None
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    cuda_runtime_version: str | None
    cuda_module_loading: str
    nvidia_driver_version: str | None
    nvidia_gpu_models: str | None
    cudnn_version: str | None
    is_xpu_available: str
    pip_version: str
    pip_packages: str
    conda_packages: str | None
    hip_compiled_version: str
    hip_runtime_version: str
    miopen_runtime_version: str
    caching_allocator_config: str
    is_xnnpack_available: str
    cpu_info: str | None


def _told(*command: str) -> str | None:
    """What a program of the machine prints, if it is there."""
    path = shutil.which(command[0])
    if path is None:
        return None
    try:
        done = subprocess.run([path, *command[1:]], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _found(pattern: str, text: str | None) -> str | None:
    match = re.search(pattern, text or "", re.M)
    return None if match is None else match[1].strip()


def _os() -> str:
    try:
        named = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        named = platform.platform()
    return f"{named} ({platform.machine()})"


def _packages() -> str:
    found = {d.name.lower().replace("_", "-"): f"{d.name}=={d.version}" for d in distributions() if d.name}
    return "\n".join(f"[pip3] {found[name]}" for name in sorted(_LIBRARIES) if name in found)


def get_env_info() -> SystemEnv:
    """All that is told, asked now."""
    torch: Any = import_module("nbgrad")
    available = torch.cuda.is_available()
    models = [
        f"GPU {k}: {torch.cuda.get_device_name(k)}"
        for k in range(torch.cuda.device_count() if available else 0)
    ]
    bits = sys.maxsize.bit_length() + 1
    return SystemEnv(
        torch_version=f"{torch.version.__version__} (nbgrad {torch.__version__})",
        is_debug_build="False",
        cuda_compiled_version="None",
        gcc_version=_found(r"gcc (.*)", _told("gcc", "--version")),
        clang_version=_found(r"clang version (.*)", _told("clang", "--version")),
        cmake_version=_found(r"cmake (.*)", _told("cmake", "--version")),
        os=_os(),
        libc_version="-".join(platform.libc_ver()),
        python_version=f"{' '.join(sys.version.split())} ({bits}-bit runtime)",
        python_platform=platform.platform(),
        is_cuda_available=str(available),
        cuda_runtime_version=_found(r"release .+ V(.*)", _told("nvcc", "--version")),
        cuda_module_loading=os.environ.get("CUDA_MODULE_LOADING", "N/A") if available else "N/A",
        nvidia_driver_version=_found(
            r"(\S+)", _told("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        ),
        nvidia_gpu_models="\n".join(models) or None,
        cudnn_version=None,
        is_xpu_available="False",
        pip_version="pip3",
        pip_packages=_packages(),
        conda_packages=None,
        hip_compiled_version="N/A",
        hip_runtime_version="N/A",
        miopen_runtime_version="N/A",
        caching_allocator_config=os.environ.get("PYTORCH_ALLOC_CONF", "") or "N/A",
        is_xnnpack_available="False",
        cpu_info=_told("lscpu"),
    )


def pretty_str(envinfo: SystemEnv) -> str:
    """All that in lines."""
    told = {key: "Could not collect" if value is None else value for key, value in envinfo._asdict().items()}
    if "\n" in told["nvidia_gpu_models"]:
        told["nvidia_gpu_models"] = f"\n{told['nvidia_gpu_models']}\n"
    if envinfo.conda_packages is None:
        told["conda_packages"] = "[conda] Could not collect"
    return env_info_fmt.format(**told)


def get_pretty_env_info() -> str:
    """What a report of a fault should say of the machine.

    >>> print(torch.utils.collect_env.get_pretty_env_info().partition(":")[0])
    PyTorch version
    """
    return pretty_str(get_env_info())


def main() -> None:
    """Print it."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
