"""Device memory of this process from NVML, with what PyTorch's allocator does not count (context, NCCL, cuBLAS)."""

import ctypes
import os

UNKNOWN = 2**64 - 1  # NVML_VALUE_NOT_AVAILABLE
CONTEXT = 2 << 30  # most bytes of a process beside PyTorch's allocator
FIRST_PID_NAMESPACE = 0xEFFFFFFC  # inode on the host: there the driver's process numbers are valid


class ProcessInfo(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("instances", ctypes.c_uint * 2)]


class MemoryInfo(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class DeviceMemory:
    def __init__(self, nvml=None):
        """Call it before CUDA is initialised: memory in use now is not this process's. OSError without a driver."""
        self.nvml = nvml or ctypes.CDLL("libnvidia-ml.so.1")
        self.call("nvmlInit_v2")
        count = ctypes.c_uint()
        self.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        self.before = [self.held(self.handle(index)) for index in range(count.value)]

    def call(self, name, *arguments):
        error = getattr(self.nvml, name)(*arguments)
        if error != 0:
            raise OSError("%s: error %d" % (name, error))

    def handle(self, index):
        device = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(device))
        return device

    def held(self, device):
        memory = MemoryInfo()
        self.call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
        return memory.used

    def own(self, device):
        """Bytes that the driver counts for this process. In a PID namespace, those of the only process there."""
        count, infos = ctypes.c_uint(256), (ProcessInfo * 256)()
        try:
            self.call("nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), infos)
        except (OSError, AttributeError):  # an old driver
            return None
        infos = infos[:count.value]
        if os.stat("/proc/self/ns/pid").st_ino == FIRST_PID_NAMESPACE:
            infos = [info for info in infos if info.pid == os.getpid()]
        return infos[0].used if len(infos) == 1 and infos[0].used != UNKNOWN else None

    def of_others(self, index, reserved):
        """Bytes of other processes: all that the driver does not count for this one. If it counts none, at least what
        they held before __init__, or what PyTorch's `reserved` and a context leave of all."""
        device = self.handle(index)
        own, held = self.own(device), self.held(device)
        return max(0, held - own) if own is not None else max(self.before[index], held - reserved - CONTEXT)

    def of_process(self, index, reserved):
        """Bytes that the driver counts, else the growth since __init__. None: both are below PyTorch's `reserved`."""
        device = self.handle(index)
        for used in (self.own(device), self.held(device) - self.before[index]):
            if used is not None and used >= reserved:
                return used
        return None
