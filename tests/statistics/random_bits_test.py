"""random_bits_test.py PROGRAM: nano-random-bits writes Philox 4x32-10, computed here anew, of the places that its streams
name, and refuses a number that no stream has."""

import struct
import subprocess
import sys

PROGRAM = sys.argv[1]
MASK = 0xFFFFFFFF


def philox(counter, key):
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k0, b & MASK, a >> 32 ^ c[3] ^ k1, a & MASK]
        k0, k1 = k0 + 0x9E3779B9 & MASK, k1 + 0xBB67AE85 & MASK
    return c


def at(column=0, row=0, sequence=0, use=0, seed=0):
    return philox((column // 4, row, sequence, use), (seed, 0))[column % 4]


def columns(i):
    return at(i % 768, i // 768 % 4096, i // 768 // 4096)


STREAMS = [
    columns,
    lambda i: int(f"{columns(i):032b}"[::-1], 2),
    lambda i: at(row=i),
    lambda i: at(sequence=i),
    lambda i: at(use=i),
    lambda i: at(seed=i),
]


def numbers(stream, count):
    with subprocess.Popen([PROGRAM, str(stream)], stdout=subprocess.PIPE) as process:
        raw = process.stdout.read(4 * count)
        process.stdout.close()
    return list(struct.unpack(f"<{count}I", raw))


# Salmon et al. 2011: counter and key of ones.
assert philox([MASK] * 4, [MASK] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
names = subprocess.run([PROGRAM], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
assert len(names) == len(STREAMS), names
for number, stream in enumerate(STREAMS):
    found, wanted = numbers(number, 3000), [stream(i) for i in range(3000)]
    assert found == wanted, (number, [i for i in range(3000) if found[i] != wanted[i]][:3])
for word in ("6", "-1", "x", ""):
    done = subprocess.run([PROGRAM, word], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, check=False)
    assert done.returncode == 2, (word, done.returncode)
    assert done.stderr == f"nano-random-bits: {word}: streams are numbered from 0 to 5\n", done.stderr
