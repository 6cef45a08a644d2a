"""Kernels of a plan through NVRTC: what the compiler of the CUDA toolkit makes of them, with no GPU.

compile_kernel(nvrtc, path) compiles a .cu file (`nanoc --dump-ir DIR` writes DIR/kernels) for sm_90a
and says what its kernel needs. NVRTC is loaded from the machine's toolkit; `library()` is None where
there is none."""

import ctypes
import glob
import os
import re
import struct
from dataclasses import dataclass

ARCHITECTURE = "sm_90a"
# As runtime/cuda/KernelCode.cpp compiles kernels, and told what they need.
OPTIONS = [
    f"--gpu-architecture={ARCHITECTURE}",
    "--std=c++20",
    "--device-as-default-execution-space",
    "--generate-line-info",
    "--ptxas-options=-v",
]
BYTES_PER_INSTRUCTION = 16


@dataclass
class Resources:
    """What a kernel needs: registers of a thread, bytes of its stack and of those that registers spill
    to, bytes of static shared memory, and machine instructions."""

    registers: int
    stack: int
    spilled: int
    shared: int
    instructions: int


def library():
    """The newest NVRTC of the machine, or None."""
    folders = [os.environ.get("CUDA_HOME", ""), *sorted(glob.glob("/usr/local/cuda*"), reverse=True)]
    paths = [
        path
        for folder in folders
        if folder
        for part in ("lib64", "lib", "targets/x86_64-linux/lib")
        for path in sorted(glob.glob(os.path.join(folder, part, "libnvrtc.so*")))
    ]
    for path in paths:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def version(nvrtc):
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def instructions_of(cubin, name):
    """Machine instructions of a kernel: the size of its section in the ELF file."""
    header, = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, header + i * size) for i in range(count)]
    strings = sections[names][4]
    for section in sections:
        start = strings + section[0]
        text = cubin[start : cubin.index(b"\0", start)].decode()
        if text == f".text.{name}":
            return section[5] // BYTES_PER_INSTRUCTION
    raise AssertionError(f"the object of {name} has no code of that name")


def resources_of(log, instructions, name):
    """Resources from ptxas' verbose log; AssertionError when it does not say what they are, or says that
    products wait for each other. A function that is not inlined has lines of its own: registers and stack
    are the largest, what spills the sum."""

    def numbers(pattern):
        found = [int(number) for number in re.findall(pattern, log)]
        if not found:
            raise AssertionError(f"the log of {name} lacks '{pattern}':\n{log.strip()[-2000:]}")
        return found

    serialised = re.search(r".*wgmma.* serialized.*", log)
    if serialised:
        raise AssertionError(f"tensor cores wait for each product of {name}: {serialised.group(0).strip()}")
    # ptxas says nothing of shared memory where there is none.
    shared = [int(number) for number in re.findall(r"(\d+) bytes smem", log)]
    return Resources(
        registers=max(numbers(r"Used (\d+) registers")),
        stack=max(numbers(r"(\d+) bytes stack frame")),
        spilled=sum(numbers(r"(\d+) bytes spill stores")),
        shared=max(shared, default=0),
        instructions=instructions,
    )


def compile_kernel(nvrtc, path):
    """Resources of the kernel in a file; AssertionError with NVRTC's message when it does not compile."""
    with open(path, "rb") as file:
        text = file.read()
    name = os.path.basename(path)
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, name.encode(), 0, None, None)
    options = [*OPTIONS, f"--include-path={os.path.dirname(path)}"]
    if int(version(nvrtc).split(".")[0]) >= 13:
        options.append("--minimal")
    list_of = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    status = nvrtc.nvrtcCompileProgram(program, len(options), list_of)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    log = log.value.decode()
    if status != 0:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        raise AssertionError(f"{name} does not compile:\n{log.strip()[-2000:]}")
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, cubin)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))

    kernel = name.removesuffix(".cu")
    return resources_of(log, instructions_of(cubin.raw, kernel), kernel)

