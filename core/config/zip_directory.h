// What a zip archive says that it holds, from the directory at its end alone: nothing is unpacked to find out, and
// nothing that the directory says is believed beyond the file's own size.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
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

// An archive's bytes, in a file or within another archive.
struct ZipBytes {
  uint64_t size = 0;
  std::function<void(char* data, int64_t bytes, int64_t offset)> read;
};
ZipBytes zip_bytes(const InputFile& file);  // which must outlive it, as the text must
ZipBytes zip_bytes(const std::string_view& text);

// Every record, those that overlap each; nothing where the directory is missing or makes no sense. IoError.
std::optional<std::vector<ZipRecord>> read_zip_directory(const ZipBytes& archive);

// Where the record's content begins; nothing where its header is not there, or the archive ends before it does.
std::optional<uint64_t> content_begin(const ZipBytes& archive, const ZipRecord& record);

}  // namespace memtune::config
