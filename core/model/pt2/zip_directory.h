// Lists the records of a zip archive from its central directory, without unpacking. Nothing in the directory is trusted
// beyond the file's own size.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.h"

namespace memtune::model {

struct ZipDirectoryEntry {
  std::string name;
  uint64_t offset = 0;  // of its header
  uint64_t stored_bytes = 0, unpacked_bytes = 0;
  uint32_t checksum = 0;  // CRC-32 of the content
  bool packed = false;
};

// The bytes of an archive: a file, or a record of another archive.
struct ZipByteSource {
  uint64_t size = 0;
  std::function<void(char* data, int64_t bytes, int64_t offset)> read;
};
ZipByteSource zip_bytes(const RandomAccessFileReader& file);  // the file or text must outlive the result
ZipByteSource zip_bytes(const std::string_view& text);

// All records; they may overlap. Returns nothing if the directory is missing or invalid. Throws IoError if reading
// fails.
std::optional<std::vector<ZipDirectoryEntry>> read_zip_directory(const ZipByteSource& archive);

// Offset of the record's content. Returns nothing if its header is missing or the archive is too short.
std::optional<uint64_t> content_begin(const ZipByteSource& archive, const ZipDirectoryEntry& record);

}  // namespace memtune::model
