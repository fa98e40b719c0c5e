"""Tests the device memory of a process, with a fake driver.

    python3 device_memory_test.py FOLDER_OF_THE_SHIM [unittest arguments]
"""
import os
import sys
import unittest
from unittest import mock

OTHERS = 1000  # bytes in use on the device before


class Driver:
    """A fake of NVML. Its functions write into arguments by reference, ctypes' `_obj`."""

    def __init__(self, processes=(), missing=()):
        self.processes, self.missing, self.used = processes, missing, OTHERS

    def nvmlInit_v2(self):
        return 0

    def nvmlDeviceGetCount_v2(self, count):
        count._obj.value = 1
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, device):
        return 0 if index.value == 0 else 2

    def nvmlDeviceGetMemoryInfo(self, device, memory):
        memory._obj.used = self.used
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, device, count, infos):
        if self.missing:
            return 3
        count._obj.value = len(self.processes)
        for info, (pid, used) in zip(infos, self.processes):
            info.pid, info.used = pid, used
        return 0


class DeviceMemoryTest(unittest.TestCase):
    def told(self, driver, since=500, reserved=400, host=True):
        memory = memtune_device_memory.DeviceMemory(driver)
        driver.used += since
        inode = memtune_device_memory.FIRST_PID_NAMESPACE if host else 7
        with mock.patch.object(os, "stat", lambda path: mock.Mock(st_ino=inode)):
            return memory.of_process(0, reserved)

    def test_memory_is_what_the_driver_counts_for_this_process(self):
        self.assertEqual(self.told(Driver([(1, 900), (os.getpid(), 450)])), 450)

    def test_in_a_pid_namespace_only_a_single_process_is_identified(self):
        self.assertEqual(self.told(Driver([(90001, 450)]), host=False), 450)
        self.assertEqual(self.told(Driver([(90001, 450), (os.getpid(), 460)]), host=False), 500)

    def test_without_a_count_it_is_the_growth_since_the_start(self):
        unknown = memtune_device_memory.UNKNOWN
        for driver in (Driver(), Driver([(1, 900)]), Driver([(os.getpid(), unknown)]), Driver(missing=True)):
            self.assertEqual(self.told(driver), 500)

    def test_others_hold_what_the_driver_does_not_count_for_this_process(self):
        self.assertEqual(self.of_others(Driver([(1, 900), (os.getpid(), 450)])), OTHERS + 500 - 450)
        self.assertEqual(self.of_others(Driver([(1, 900)])), OTHERS)
        self.assertEqual(self.of_others(Driver([(os.getpid(), 9000)])), 0)
        context = memtune_device_memory.CONTEXT
        self.assertEqual(self.of_others(Driver([(1, 900)]), since=context + 700), OTHERS + 700 - 400)

    def of_others(self, driver, since=500):
        memory = memtune_device_memory.DeviceMemory(driver)
        driver.used += since
        inode = memtune_device_memory.FIRST_PID_NAMESPACE
        with mock.patch.object(os, "stat", lambda path: mock.Mock(st_ino=inode)):
            return memory.of_others(0, 400)

    def test_counts_below_the_reserved_bytes_of_pytorch_are_ignored(self):
        self.assertEqual(self.told(Driver([(os.getpid(), 300)])), 500)
        self.assertIsNone(self.told(Driver([(os.getpid(), 300)]), since=-200))  # another process ended

    def test_a_failing_driver_raises_os_error(self):
        driver = Driver()
        driver.nvmlInit_v2 = lambda: 9
        self.assertRaises(OSError, memtune_device_memory.DeviceMemory, driver)
        self.assertRaises(OSError, memtune_device_memory.DeviceMemory(Driver()).of_process, 1, 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.path.insert(0, sys.argv.pop(1))
    import memtune_device_memory
    unittest.main()
