#include "core/base/own_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace memtune {
namespace {

namespace fs = std::filesystem;

bool is_file_or_folder(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
}

}  // namespace

OwnFolder::OwnFolder(fs::path root, FileSystem& below) : root_(std::move(root)), below_(below) {}

fs::path OwnFolder::resolved(const fs::path& path) const {
  const fs::path root = fs::absolute(root_).lexically_normal();
  const fs::path inside = fs::absolute(path).lexically_normal().lexically_relative(root);
  if (inside.empty() || *inside.begin() == "..") return "";
  std::error_code missing;
  const fs::path real = fs::canonical(root, missing);
  if (missing) return root / inside;
  return inside == "." ? real : real / inside;
}

// Not waiting for the other end of a pipe. Of a file that is none the flag is taken away: where a file system cannot do
// without waiting, io_uring would refuse every transfer.
int OwnFolder::open(const fs::path& path, int flags, unsigned mode) {
  const fs::path real = resolved(path);
  if (real.empty()) return -EXDEV;
  const int file = below_.open(real, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode);
  if (file < 0) return file == -ENXIO ? -ESPIPE : file;
  if (!is_file_or_folder(file)) return ::close(file), -ESPIPE;
  if ((flags & O_NONBLOCK) == 0) ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return file;
}

int OwnFolder::make_folder(const fs::path& path) {
  const fs::path real = resolved(path);
  return real.empty() ? -EXDEV : below_.make_folder(real);
}

int OwnFolder::remove_folder(const fs::path& path) {
  const fs::path real = resolved(path);
  return real.empty() ? -EXDEV : below_.remove_folder(real);
}

int OwnFolder::rename(const fs::path& from, const fs::path& to) {
  const fs::path real_from = resolved(from), real_to = resolved(to);
  return real_from.empty() || real_to.empty() ? -EXDEV : below_.rename(real_from, real_to);
}

int OwnFolder::unlink(const fs::path& path) {
  const fs::path real = resolved(path);
  return real.empty() ? -EXDEV : below_.unlink(real);
}

}  // namespace memtune
