"""Puts the CPU parts of PyTorch and PyTorch/XLA into the environment of the interpreter that runs this, from the wheels of the package index.

    python torch_parts.py      (in an environment with the packages of torch.txt)

The index has PyTorch for Linux with its CUDA libraries only, several gigabytes that a machine without a GPU has no use for, and the extension module is
linked to them. Here they are left out, and small libraries of the same names stand in for them, whose functions do nothing. That will do for XLA on the CPU, and
for nothing else. Needs `g++` and `nm`. Where PyTorch's own index can be reached, its CPU wheels do the same without this.
"""
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

WHEELS = ("torch==2.9.0", "torch_xla==2.9.0")
LEFT_OUT = ("libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so")
EMPTY = ("libcudnn.so.9", "libcusparseLt.so.0")
SITE = pathlib.Path(sysconfig.get_paths()["platlib"])
LIBRARIES = SITE / "torch/lib"
# Classes whose type information the extension module refers to; a function in their place would not do.
CLASSES = ("c10d::ProcessGroupNCCL", "torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator",
           "torch::inductor::AOTIModelContainerRunnerCuda", "torch::jit::tensorexpr::CudaCodeGen")


def main():
    if subprocess.run([sys.executable, "-c", "import torch, torch_xla"], capture_output=True).returncode == 0:
        return
    with tempfile.TemporaryDirectory() as folder:
        for wheel in WHEELS:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-cache-dir", "--no-deps", "--dest", folder, wheel], check=True)
        for wheel in pathlib.Path(folder).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(SITE, [name for name in archive.namelist() if not name.endswith(LEFT_OUT)])
        for name in EMPTY:
            library(name, "", folder)
        library("libtorch_cuda.so", source(), folder)
    subprocess.run([sys.executable, "-c", "import torch, torch_xla"], check=True)


def library(name, text, folder):
    """Compiles a library into the folder of PyTorch's."""
    file = pathlib.Path(folder, "source.cc")
    file.write_text(text)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", LIBRARIES / name, file, f"-Wl,-soname,{name}"], check=True)


def source():
    """A library with all that the extension module wants and nobody has. Functions give an address of zeros, which is `false` and 0 in its lowest bytes."""
    lines = ["alignas(65536) char nothing[1 << 16];", 'extern "C" void *stand_in() { return nothing; }']
    for name in CLASSES:
        *spaces, last = name.split("::")
        opened = " ".join(f"namespace {space} {{" for space in spaces)
        lines.append(f"{opened} struct {last} {{ virtual ~{last}(); }}; {last}::~{last}() {{}} {'}' * len(spaces)}")
    with tempfile.TemporaryDirectory() as folder:
        library("libtorch_cuda.so", "\n".join(lines), folder)
    # What the classes bring by themselves needs no stand-in.
    return "\n".join([*lines, *(f'__asm__(".globl {symbol}\\n.set {symbol}, stand_in");' for symbol in sorted(missing()))])


def missing():
    """Symbols of the extension module that no library at hand defines."""
    wanted = symbols(LIBRARIES / "libtorch_python.so", "--undefined-only")
    at_hand = [LIBRARIES / name for name in ("libtorch_cpu.so", "libtorch_cuda.so", "libc10.so", "libc10_cuda.so", "libshm.so")]
    at_hand += SITE.glob("nvidia/*/lib/*.so*")
    needed = subprocess.run(["ldd", LIBRARIES / "libc10.so"], capture_output=True, text=True, check=True).stdout.split()
    at_hand += [pathlib.Path(path) for path in needed if path.startswith("/")]
    defined = set().union(*(symbols(path, "--defined-only") for path in at_hand))
    return {name for name, kind in wanted.items() if kind == "U" and name not in defined and not name.startswith(("Py", "_Py"))}


def symbols(path, which):
    """Names of dynamic symbols with their kinds."""
    lines = subprocess.run(["nm", "-D", which, path], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0]: line.split()[-2] for line in lines}


if __name__ == "__main__":
    main()
