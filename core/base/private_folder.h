// A folder of this process's own among the temporary ones, which nobody else may look into; gone with this.
#pragma once

#include <filesystem>
#include <string>

namespace memtune {

class PrivateFolder {
 public:
  explicit PrivateFolder(const std::string& name);  // in "memtune-NAME-XXXXXX"; IoError
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }  // absolute

 private:
  std::filesystem::path path_;
};

}  // namespace memtune
