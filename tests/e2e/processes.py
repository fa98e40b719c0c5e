"""Finds processes, for tests that memtune leaves none behind."""
import os


def processes_of(folder):
    """Processes with the folder in their command line, without this one."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
            with open(f"/proc/{entry}/stat") as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state not in "ZX" and any(folder in word for word in words):
            found.append((int(entry), words))
    return found
