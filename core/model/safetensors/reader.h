// Strict reader of safetensors files: it checks the header against the file before it allocates memory.
#pragma once

#include <filesystem>

#include "core/base/file.h"
#include "core/model/safetensors/header.h"

namespace memtune::safetensors {

class Reader {
 public:
  // Throws UsageError with file and fault if the file is missing or invalid. `system` is replaced in tests.
  explicit Reader(const std::filesystem::path& path, FileSystem& system = system_files());

  const std::vector<TensorEntry>& entries() const { return header_.entries; }  // in data order
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  int64_t bytes() const { return file_.size(); }
  // The bytes before the data, unchanged. Throws IoError.
  std::string head() const;

  // Reads all bytes of one of entries(). Throws IoError.
  void read(const TensorEntry& entry, char* data) const { file_.read(data, entry.bytes(), data_ + entry.begin); }

 private:
  void read_header();

  RandomAccessFileReader file_;
  int64_t data_ = 0;  // offset of the data
  Header header_;
};

}  // namespace memtune::safetensors
