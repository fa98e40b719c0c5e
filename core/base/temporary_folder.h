// A temporary folder that only this user can read (mode 0700). The destructor removes it.
#pragma once

#include <filesystem>
#include <string>

namespace memtune {

class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name);  // creates "memtune-NAME-XXXXXX"; throws IoError
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }  // absolute

 private:
  std::filesystem::path path_;
};

}  // namespace memtune
