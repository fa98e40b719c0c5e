// Opens files at untrusted paths. The path may name a pipe without a writer or an endless device; no function here
// blocks on either. Thread: any.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/file_system.h"

namespace memtune {

// FileSystem::open() for regular files and folders. Returns -ESPIPE for a pipe, a device or a socket. Not retried after
// a signal, so that -EINTR can end the wait for an unresponsive file system.
int open_file(FileSystem& system, const std::filesystem::path& path, int flags, unsigned mode);

// Opens an existing pipe, device or terminal for writing. Waits two seconds for a pipe's reader, then returns -ENXIO.
int open_stream(FileSystem& system, const std::filesystem::path& path);

// "a pipe", "a device", "a socket" or "a folder"; "" for a regular file or a missing path. Follows links.
std::string other_than_file(const std::filesystem::path& path);

// Throws UsageError if `path` is no regular file; the message says what it is. `what` is the flag that gave the path.
void require_file(const std::string& what, const std::filesystem::path& path);

}  // namespace memtune
