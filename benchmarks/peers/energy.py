"""Joules that GPUs spend between two moments, by the counters that NVML has of them; and the moments
at which the steps of a run come into its log."""

import ctypes
import os
import threading
import time

SECONDS = 0.005  # between two looks at a log, or at a counter, which moves on every 20 to 100 ms


class Meter:
    """Reads the counters of all GPUs in a thread of its own inside of a `with`; without NVML, or
    with GPUs that do not count, it has nothing to say."""

    def __init__(self):
        self.seen = {}  # by UUID: [(time.monotonic(), millijoules)], an entry for every change
        self.handles = {}
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        count = ctypes.c_uint()
        if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
            return
        for index in range(count.value):
            handle, uuid = ctypes.c_void_p(), ctypes.create_string_buffer(96)
            if self.nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)):
                continue
            if not self.nvml.nvmlDeviceGetUUID(handle, uuid, len(uuid)):
                self.handles[uuid.value.decode()] = handle
                self.seen[uuid.value.decode()] = []

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def watch(self):
        spent = ctypes.c_ulonglong()
        while self.handles and not self.over.wait(SECONDS):
            for uuid, handle in self.handles.items():
                if self.nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(spent)):
                    continue
                seen = self.seen[uuid]
                if not seen or seen[-1][1] != spent.value:
                    seen.append((time.monotonic(), spent.value))

    def joules(self, uuid, begin, end):
        """Of the GPU whose UUID ends with `uuid`, between two times of time.monotonic(); None where
        it was not watched all the while. Between two changes of its counter it is taken to spend
        evenly."""
        named = [seen for name, seen in self.seen.items() if uuid and name.endswith(uuid)]
        if len(named) != 1:
            return None
        at_begin, at_end = (counted(named[0], moment) for moment in (begin, end))
        return None if None in (at_begin, at_end) else (at_end - at_begin) / 1000


def counted(seen, moment):
    """What a counter stands at between its changes [(time, value)]; None outside of them."""
    for (begin, low), (end, high) in zip(seen, seen[1:]):
        if begin <= moment <= end:
            return low + (high - low) * (moment - begin) / (end - begin)
    return None


class StepClock:
    """When each step's line came into a log, by time.monotonic(), inside of a `with`."""

    def __init__(self, path):
        self.path, self.times = path, []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def watch(self):
        while not os.path.exists(self.path) and not self.over.wait(SECONDS):
            pass
        if not os.path.exists(self.path):
            return
        with open(self.path, "rb") as file:
            is_over = False
            while not is_over:
                is_over = self.over.wait(SECONDS)
                steps = file.read().count(b'{"event":"step"')
                self.times += [time.monotonic()] * steps
