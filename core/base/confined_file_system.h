// Restricts FileSystem to one folder whose content is not trusted: it may come from an archive, or a model may have run
// in it. open() refuses symbolic links below the folder, paths that lead outside, and everything but regular files and
// folders; reading a pipe could block forever. The path of the folder itself may contain links. Thread: any.
#pragma once

#include "core/base/file_system.h"

namespace memtune {

class ConfinedFileSystem final : public FileSystem {
 public:
  // `root` may be missing; it is resolved at each call. `below` makes the real calls and must outlive this object.
  explicit ConfinedFileSystem(std::filesystem::path root, FileSystem& below = system_files());

  // Returns -ELOOP for a link in the path, -EXDEV for a path outside, -ESPIPE for a pipe, a device or a socket.
  int open(const std::filesystem::path& path, int flags, unsigned mode) override;
  int make_folder(const std::filesystem::path& path) override;
  int remove_folder(const std::filesystem::path& path) override;
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  int unlink(const std::filesystem::path& path) override;
  int names_in(int folder, std::vector<std::string>& names) override { return below_.names_in(folder, names); }
  int64_t read(int file, char* data, int64_t bytes) override { return below_.read(file, data, bytes); }
  int64_t read_at(int file, char* data, int64_t bytes, int64_t offset) override {
    return below_.read_at(file, data, bytes, offset);
  }
  int64_t write(int file, const char* data, int64_t bytes) override { return below_.write(file, data, bytes); }
  int64_t size(int file) override { return below_.size(file); }
  int sync(int file) override { return below_.sync(file); }
  int resize(int file, int64_t bytes) override { return below_.resize(file, bytes); }
  int allocate(int file, int64_t offset, int64_t bytes) override { return below_.allocate(file, offset, bytes); }
  int status(int file, struct statfs& status) override { return below_.status(file, status); }
  int lock(int file) override { return below_.lock(file); }

 private:
  // Resolves links in the root's own path only; "" for a path outside.
  std::filesystem::path resolved(const std::filesystem::path& path) const;

  std::filesystem::path root_;
  FileSystem& below_;
};

}  // namespace memtune
