#include "core/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const char* operation, const fs::path& path, int error = errno) {
  throw IoError("cannot " + std::string(operation) + " '" + path.string() +
                "': " + std::generic_category().message(error));
}

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, const char* operation)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) fail(operation, path);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

void write_all(int fd, std::string_view content, const fs::path& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path);
    content.remove_prefix(static_cast<size_t>(written));
  }
}

// Pipes, terminals and some network folders have nothing to sync and answer EINVAL.
void sync(int fd, const fs::path& path) {
  while (::fsync(fd) != 0) {
    if (errno == EINVAL || errno == EROFS) return;
    if (errno != EINTR) fail("sync", path);
  }
}

void sync_folder_of(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  sync(Descriptor(folder, O_RDONLY | O_DIRECTORY, "open").get(), folder);
}

void write_and_sync(const fs::path& path, int flags, std::string_view content) {
  const Descriptor file(path, O_WRONLY | O_CREAT | flags, "write");
  write_all(file.get(), content, path);
  sync(file.get(), path);
}

// Unique among the threads and the living processes; what a killed one left under the same name is overwritten.
fs::path temporary_beside(const fs::path& path) {
  static std::atomic<int> counter{0};
  return path.string() + ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter++);
}

std::string read_from(int fd, const fs::path& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) fail("read", path);
  std::string content;
  size_t size = 0;
  while (true) {
    // The size is a hint: files grow, pipes and /proc have none.
    if (size == content.size()) content.resize(size + std::max<size_t>(4096, size == 0 ? info.st_size + 1 : size));
    const ssize_t got = ::read(fd, content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  content.resize(size);
  return content;
}

}  // namespace

std::string read_file(const fs::path& path) {
  const Descriptor file(path, O_RDONLY, "read");
  return read_from(file.get(), path);
}

void write_file(const fs::path& path, std::string_view content) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) fail("write", path, EISDIR);
  // Renaming over a pipe or a device would replace it instead of writing to it.
  if (fs::exists(status) && !fs::is_regular_file(status)) return write_and_sync(path, 0, content);
  const fs::path target = fs::is_symlink(path, ignored) ? fs::weakly_canonical(path) : path;
  const fs::path temporary = temporary_beside(target);
  try {
    write_and_sync(temporary, O_TRUNC, content);
    if (::rename(temporary.c_str(), target.c_str()) != 0) fail("write", target);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder_of(target);
}

void append_file(const fs::path& path, std::string_view content) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_APPEND, "append to");
  const off_t before = ::lseek(file.get(), 0, SEEK_END);
  try {
    write_all(file.get(), content, path);
    sync(file.get(), path);
  } catch (const IoError&) {
    // Half a record, say on a full disk, would spoil the next one.
    [[maybe_unused]] const int best_effort = before >= 0 ? ::ftruncate(file.get(), before) : 0;
    throw;
  }
  if (before == 0) sync_folder_of(path);
}

FileLock::FileLock(const fs::path& path) : fd_(-1) {
  Descriptor file(path, O_RDWR | O_CREAT, "lock");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) fail("lock", path);
    const std::string holder = trim(read_from(file.get(), path));
    throw UsageError("'" + path.string() + "' is locked by " +
                     (holder.empty() ? "another process" : "process " + holder) +
                     "; wait until it ends or use another folder");
  }
  if (::ftruncate(file.get(), 0) != 0) fail("write", path);
  write_all(file.get(), std::to_string(::getpid()) + "\n", path);
  fd_ = file.release();
}

// The file stays: removing it would let a third process lock a new file of that name beside a waiting second one.
FileLock::~FileLock() { ::close(fd_); }

fs::path executable_path() {
  std::error_code error;
  fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) fail("read", "/proc/self/exe", error.value());
  return path;
}

}  // namespace memtune
