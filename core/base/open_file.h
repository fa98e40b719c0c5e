// Opens files at paths that are not trusted. A pipe without a writer or an endless device may stand there; nothing here
// waits for either. Thread: any.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/file_system.h"

namespace memtune {

// FileSystem::open() for regular files and folders: -ESPIPE for a pipe, a device or a socket. It is not repeated after
// a signal: -EINTR ends the wait for a file system that does not answer.
int open_file(FileSystem& system, const std::filesystem::path& path, int flags, unsigned mode);

// For writing to a pipe, a device or a terminal that exists. A pipe's reader may come within two seconds: then -ENXIO.
int open_stream(FileSystem& system, const std::filesystem::path& path);

// "a pipe", "a device", "a socket", "a folder"; "" for a regular file and where there is nothing. Follows links.
std::string other_than_file(const std::filesystem::path& path);

// UsageError where `path` is no regular file: it says what is there instead. `what` is the flag that names the path.
void require_file(const std::string& what, const std::filesystem::path& path);

}  // namespace memtune
