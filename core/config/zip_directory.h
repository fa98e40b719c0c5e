// What a zip archive says that it holds, from the directory at its end alone: nothing is unpacked to find out, and
// nothing that the directory says is believed beyond the file's own size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/file.h"

namespace memtune::config {

struct ZipRecord {
  std::string name;
  uint64_t offset = 0;  // of its header in the file
  uint64_t stored_bytes = 0, unpacked_bytes = 0;
  uint32_t checksum = 0;  // CRC-32 of the content
  bool packed = false;
};

// Every record, those that overlap each; nothing where the directory is missing or makes no sense. IoError.
std::optional<std::vector<ZipRecord>> read_zip_directory(const InputFile& archive);

}  // namespace memtune::config
