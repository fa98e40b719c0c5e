#include "core/base/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "core/base/error.h"

namespace memtune {
namespace {

namespace fs = std::filesystem;

bool is_file_or_folder(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
}

int open_without_waiting(FileSystem& system, const fs::path& path, int flags, unsigned mode) {
  return system.open(path, flags | O_NONBLOCK | O_NOCTTY, mode);
}

// Restores blocking reads and writes. On file systems without non-blocking I/O, io_uring would refuse every transfer.
void wait_from_now_on(int file) { ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) & ~O_NONBLOCK); }

}  // namespace

int open_file(FileSystem& system, const fs::path& path, int flags, unsigned mode) {
  const int file = open_without_waiting(system, path, flags, mode);
  if (file < 0) return file == -ENXIO ? -ESPIPE : file;  // ENXIO: a socket, or writing to a pipe without a reader
  if (!is_file_or_folder(file)) return ::close(file), -ESPIPE;
  if ((flags & O_NONBLOCK) == 0) wait_from_now_on(file);
  return file;
}

int open_stream(FileSystem& system, const fs::path& path) {
  constexpr std::chrono::milliseconds kOpenTimeout{2000}, kBetweenTries{20};
  int file = open_without_waiting(system, path, O_WRONLY, 0);
  for (auto left = kOpenTimeout; file == -ENXIO && left.count() > 0; left -= kBetweenTries) {
    std::this_thread::sleep_for(kBetweenTries);
    file = open_without_waiting(system, path, O_WRONLY, 0);
  }
  if (file >= 0) wait_from_now_on(file);
  return file;
}

std::string other_than_file(const fs::path& path) {
  std::error_code ignored;
  switch (fs::status(path, ignored).type()) {
    case fs::file_type::directory: return "a folder";
    case fs::file_type::fifo: return "a pipe";
    case fs::file_type::socket: return "a socket";
    case fs::file_type::character:
    case fs::file_type::block: return "a device";
    default: return "";
  }
}

void require_file(const std::string& what, const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_regular_file(status)) return;
  if (status.type() == fs::file_type::not_found) throw UsageError(what + ": no such file: " + path.string());
  const std::string kind = other_than_file(path), place = what + ": " + path.string();
  if (kind == "a folder") throw UsageError(place + " is a folder; name the file in it");
  if (kind.empty()) throw UsageError(place + " cannot be read: " + error.message());
  throw UsageError(place + " is " + kind + "; a regular file is needed");
}

}  // namespace memtune
