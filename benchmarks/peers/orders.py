"""The orders in which documents are read, as docs/data.md says: drawn from the uniform streams that
runtime/Random.h specifies."""

import numpy

MASK = (1 << 64) - 1
PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def rotated(value, bits):
    return (value << bits | value >> 64 - bits) & MASK


def hashed(name):
    """XXH64 with seed 0 of a name of fewer than 32 bytes, as those of streams here are."""
    data = name.encode()
    if len(data) >= 32:
        raise ValueError(f"{name} is too long for the name of a stream")
    one, two, three, four, five = PRIMES
    value = (five + len(data)) & MASK
    while len(data) >= 8:
        lane = int.from_bytes(data[:8], "little") * two & MASK
        value = (rotated(value ^ rotated(lane, 31) * one & MASK, 27) * one + four) & MASK
        data = data[8:]
    if len(data) >= 4:
        lane = int.from_bytes(data[:4], "little") * one & MASK
        value = (rotated(value ^ lane, 23) * two + three) & MASK
        data = data[4:]
    for byte in data:
        value = rotated(value ^ byte * five & MASK, 11) * one & MASK
    for bits, prime in ((33, two), (29, three)):
        value = (value ^ value >> bits) * prime & MASK
    return value ^ value >> 32


def uniform(count, seed, name):
    """The first elements of the stream (seed, name) in (0, 1), f64: Philox4x32-10."""
    low = numpy.uint64(0xFFFFFFFF)
    label, index = hashed(name), numpy.arange(count, dtype=numpy.uint64)
    half, word = numpy.uint64(32), lambda value: numpy.uint64(value & 0xFFFFFFFF)
    a, b = index & low, index >> half
    c, d = (numpy.full(count, word(value)) for value in (label, label >> 32))
    for turn in range(10):
        keys = (seed + turn * 0x9E3779B9, (seed >> 32) + turn * 0xBB67AE85)
        first, second = a * numpy.uint64(0xD2511F53), c * numpy.uint64(0xCD9E8D57)
        a, b = second >> half ^ b ^ word(keys[0]), second & low
        c, d = first >> half ^ d ^ word(keys[1]), first & low
    return (((b << half | a) >> numpy.uint64(12)).astype(numpy.float64) + 0.5) / 2.0**52


def shuffled(count, seed, name):
    """0 … count − 1 in the order that a stream gives."""
    order = numpy.arange(count)
    places = (uniform(count, seed, name) * numpy.arange(1, count + 1)).astype(numpy.int64)
    for i in range(count - 1, 0, -1):
        order[i], order[places[i]] = order[places[i]], order[i]
    return order
