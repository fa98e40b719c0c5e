// Reading of safetensors files, strictly: the header is checked against the file before any memory is asked for.
#pragma once

#include <filesystem>

#include "core/base/file.h"
#include "core/safetensors/header.h"

namespace memtune::safetensors {

class Reader {
 public:
  // UsageError naming file and fault when there is no such file or it is not one. `system` is for tests.
  explicit Reader(const std::filesystem::path& path, FileSystem& system = system_files());

  const std::vector<Entry>& entries() const { return header_.entries; }  // in the order of the file
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  int64_t bytes() const { return file_.size(); }
  // What is before the data, as it is in the file. Throws IoError.
  std::string head() const;

  // All bytes of one of entries(). Throws IoError.
  void read(const Entry& entry, char* data) const { file_.read(data, entry.bytes(), data_ + entry.begin); }

 private:
  void read_header();

  InputFile file_;
  int64_t data_ = 0;  // where the data begins
  Header header_;
};

}  // namespace memtune::safetensors
