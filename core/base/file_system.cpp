#include "core/base/file_system.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace memtune {
namespace {

template <class Result>
Result result_of(Result value) {
  return value < 0 ? static_cast<Result>(-errno) : value;
}

}  // namespace

int FileSystem::open(const std::filesystem::path& path, int flags, unsigned mode) {
  return result_of(::open(path.c_str(), flags | O_CLOEXEC, mode));
}

int64_t FileSystem::read(int file, char* data, int64_t bytes) {
  return result_of(::read(file, data, static_cast<size_t>(bytes)));
}

int64_t FileSystem::read_at(int file, char* data, int64_t bytes, int64_t offset) {
  return result_of(::pread(file, data, static_cast<size_t>(bytes), offset));
}

int64_t FileSystem::write(int file, const char* data, int64_t bytes) {
  return result_of(::write(file, data, static_cast<size_t>(bytes)));
}

int64_t FileSystem::size(int file) {
  struct stat info {};
  return ::fstat(file, &info) < 0 ? -errno : info.st_size;
}

int FileSystem::sync(int file) { return result_of(::fsync(file)); }
int FileSystem::resize(int file, int64_t bytes) { return result_of(::ftruncate(file, bytes)); }

int FileSystem::allocate(int file, int64_t offset, int64_t bytes) {
  return result_of(::fallocate(file, 0, offset, bytes));
}

int FileSystem::status(int file, struct statfs& status) { return result_of(::fstatfs(file, &status)); }
int FileSystem::lock(int file) { return result_of(::flock(file, LOCK_EX | LOCK_NB)); }

int FileSystem::rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  return result_of(std::rename(from.c_str(), to.c_str()));
}

int FileSystem::unlink(const std::filesystem::path& path) { return result_of(::unlink(path.c_str())); }

FileSystem& system_files() {
  static FileSystem files;
  return files;
}

}  // namespace memtune
