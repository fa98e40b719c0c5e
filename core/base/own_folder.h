// The files of a folder that memtune keeps for itself and that anybody may have arranged before: it came out of an
// archive, or a model ran in it. Open calls for what is beneath it are refused when they pass a symbolic link, lead out
// of the folder, or find something else than a regular file or a folder (a pipe would make the reader wait for ever).
// The folder itself may be reached through links. Thread: any.
#pragma once

#include "core/base/file_system.h"

namespace memtune {

class OwnFolder final : public FileSystem {
 public:
  // `root` need not exist yet; it is resolved when something beneath it is opened. `below` must outlive this.
  explicit OwnFolder(std::filesystem::path root, FileSystem& below = system_files());

  // -ELOOP for a link on the way, -EXDEV for a path outside, -ESPIPE for a pipe, a device or a socket.
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
  // Without links in the part above the folder; "" for a path outside.
  std::filesystem::path resolved(const std::filesystem::path& path) const;

  std::filesystem::path root_;
  FileSystem& below_;
};

}  // namespace memtune
