// A temporary folder that only this user can read (mode 0700). The destructor removes it.
#pragma once

#include <filesystem>
#include <string>

namespace memtune {

class PrivateFolder {
 public:
  explicit PrivateFolder(const std::string& name);  // creates "memtune-NAME-XXXXXX"; throws IoError
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }  // absolute

 private:
  std::filesystem::path path_;
};

}  // namespace memtune
