# SPDX-License-Identifier: Apache-2.0
"""Programs for another machine, with the libraries that it will not have."""
import pathlib
import re
import shutil
import subprocess
import sys

CONFIGURATION = {
    "CMAKE_BUILD_TYPE": "Release", "TESSERA_CUDA": "ON", "TESSERA_MPI": "OFF",
    "TESSERA_INSPECTOR": "OFF", "CMAKE_CUDA_ARCHITECTURES": "90-real",
    "CMAKE_UNITY_BUILD": "ON", "CMAKE_UNITY_BUILD_BATCH_SIZE": "8"}
PROGRAMS = {"tessera": ".", "libtessera_cuda.so": ".", "test_cuda_device": "tests/backends/cuda",
            "test_cuda_ranks": "tests/backends/cuda", "bench_device": "tests/bench"}
TARGETS = [name.removeprefix("lib").removesuffix(".so") for name in PROGRAMS]
# Every machine has a C library of its own, and must use its own driver, CUDA and NCCL.
STAYS = re.compile(
    r"^(ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|resolv|cuda|nccl|cudart|cublas|cublasLt|nvrtc)"
    r"\.so)")
# Ours may want a younger C library than the machine's, whose own is then as young as ours.
CXX_RUNTIME = ("libstdc++.so.6", "libgcc_s.so.1")
MOST_BYTES = 64 << 20


def needed(program):
    """What the loader would open for it: name and path."""
    listed = subprocess.run(["ldd", program], text=True, capture_output=True, check=True).stdout
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", listed, re.MULTILINE))


def pack(root, build):
    options = [f"-D{name}={value}" for name, value in CONFIGURATION.items()]
    subprocess.run(["cmake", "-S", root, "-B", build, "-G", "Ninja", *options], check=True)
    subprocess.run(["cmake", "--build", build, "--target", *TARGETS], check=True)
    return collect(build)


def collect(build):
    folder = build / "gpu-check"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "lib/cxx").mkdir(parents=True)
    libraries = {}
    for name, place in PROGRAMS.items():
        built = pathlib.Path(build) / place / name
        shutil.copy2(built, folder / name)
        subprocess.run(["strip", "--strip-unneeded", folder / name], check=True)
        libraries.update(needed(built))
    for name, path in sorted(libraries.items()):
        if not STAYS.match(name):
            shutil.copy2(path, folder / ("lib/cxx" if name in CXX_RUNTIME else "lib") / name)
    archive = pathlib.Path(shutil.make_archive(str(folder), "xztar", build, folder.name))
    size = archive.stat().st_size
    print(f"gpu-check: {folder}: {sum(path.is_file() for path in folder.rglob('*'))} files, "
          f"{size / 2**20:.1f} MiB compressed ({archive.name})")
    if size <= MOST_BYTES:
        return 0
    print(f"gpu-check: more than {MOST_BYTES >> 20} MiB do not travel", file=sys.stderr)
    return 1
