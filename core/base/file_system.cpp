#include "core/base/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#if __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#endif

#include <cerrno>
#include <cstdio>
#include <iterator>

namespace memtune {
namespace {

template <class Result>
Result result_of(Result value) {
  return value < 0 ? static_cast<Result>(-errno) : value;
}

// Opens part by part. Used if openat2 is unavailable (kernels before 5.6, some sandboxes).
int walk_without_links(const std::filesystem::path& path, int flags, unsigned mode) {
  int folder = ::open(path.is_absolute() ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  const std::filesystem::path parts = path.relative_path();
  for (auto part = parts.begin(); part != parts.end() && folder >= 0; ++part) {
    const bool last = std::next(part) == parts.end();
    const int next =
        result_of(::openat(folder, part->c_str(), last ? flags : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, mode));
    ::close(folder);
    folder = next == -ENOTDIR && !last ? -ELOOP : next;  // O_DIRECTORY on a link gives ENOTDIR
  }
  return folder;
}

int open_without_links(const std::filesystem::path& path, int flags, unsigned mode) {
#ifdef SYS_openat2
  struct open_how how {};
  how.flags = static_cast<uint64_t>(flags);
  how.mode = (flags & O_CREAT) != 0 ? mode : 0;
  how.resolve = RESOLVE_NO_SYMLINKS;
  const int file = static_cast<int>(result_of(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
  if (file != -ENOSYS && file != -EPERM) return file;
#endif
  return walk_without_links(path, flags, mode);
}

}  // namespace

int FileSystem::open(const std::filesystem::path& path, int flags, unsigned mode) {
  if ((flags & O_NOFOLLOW) != 0) return open_without_links(path, flags | O_CLOEXEC, mode);
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
#ifdef __EMSCRIPTEN__  // it declares the call and lacks it
  return (void)file, (void)offset, (void)bytes, -EOPNOTSUPP;
#else
  return result_of(::fallocate(file, 0, offset, bytes));
#endif
}

int FileSystem::status(int file, struct statfs& status) { return result_of(::fstatfs(file, &status)); }
int FileSystem::lock(int file) { return result_of(::flock(file, LOCK_EX | LOCK_NB)); }

int FileSystem::make_folder(const std::filesystem::path& path) { return result_of(::mkdir(path.c_str(), 0777)); }

int FileSystem::remove_folder(const std::filesystem::path& path) { return result_of(::rmdir(path.c_str())); }

int FileSystem::names_in(int folder, std::vector<std::string>& names) {
  const int again = result_of(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));  // with its own offset, 0
  if (again < 0) return again;
  DIR* listing = ::fdopendir(again);
  if (!listing) return ::close(again), -ENOMEM;
  errno = 0;
  while (const dirent* entry = ::readdir(listing))
    if (const std::string name = entry->d_name; name != "." && name != "..") names.push_back(name);
  const int error = errno;
  ::closedir(listing);
  return -error;
}

int FileSystem::rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  return result_of(std::rename(from.c_str(), to.c_str()));
}

int FileSystem::unlink(const std::filesystem::path& path) { return result_of(::unlink(path.c_str())); }

FileSystem& system_files() {
  static FileSystem files;
  return files;
}

}  // namespace memtune
