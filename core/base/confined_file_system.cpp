#include "core/base/confined_file_system.h"

#include <fcntl.h>

#include <cerrno>
#include <system_error>

#include "core/base/open_file.h"

namespace memtune {

namespace fs = std::filesystem;

ConfinedFileSystem::ConfinedFileSystem(fs::path root, FileSystem& below) : root_(std::move(root)), below_(below) {}

fs::path ConfinedFileSystem::resolved(const fs::path& path) const {
  const fs::path root = fs::absolute(root_).lexically_normal();
  const fs::path inside = fs::absolute(path).lexically_normal().lexically_relative(root);
  if (inside.empty() || *inside.begin() == "..") return "";
  std::error_code missing;
  const fs::path real = fs::canonical(root, missing);
  if (missing) return root / inside;
  return inside == "." ? real : real / inside;
}

int ConfinedFileSystem::open(const fs::path& path, int flags, unsigned mode) {
  const fs::path real = resolved(path);
  return real.empty() ? -EXDEV : open_file(below_, real, flags | O_NOFOLLOW, mode);
}

int ConfinedFileSystem::make_folder(const fs::path& path) {
  const fs::path real = resolved(path);
  return real.empty() ? -EXDEV : below_.make_folder(real);
}

int ConfinedFileSystem::remove_folder(const fs::path& path) {
  const fs::path real = resolved(path);
  return real.empty() ? -EXDEV : below_.remove_folder(real);
}

int ConfinedFileSystem::rename(const fs::path& from, const fs::path& to) {
  const fs::path real_from = resolved(from), real_to = resolved(to);
  return real_from.empty() || real_to.empty() ? -EXDEV : below_.rename(real_from, real_to);
}

int ConfinedFileSystem::unlink(const fs::path& path) {
  const fs::path real = resolved(path);
  return real.empty() ? -EXDEV : below_.unlink(real);
}

}  // namespace memtune
