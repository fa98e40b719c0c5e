#include "core/model/pt2/zip_directory.h"

#include <algorithm>

namespace memtune::model {
namespace {

constexpr uint64_t kEndBytes = 22, kLongestComment = 65535, kLocatorBytes = 20, kLongEndBytes = 56, kRecordBytes = 46;
constexpr uint64_t kHeaderBytes = 30;             // of a record's header, before name and extra fields
constexpr uint64_t kMaxDirectoryBytes = 1 << 26;  // a larger directory is no model's
constexpr uint64_t kElsewhere = 0xFFFFFFFF;       // marks a 32-bit number whose 64-bit value is in the extra fields

// Little-endian.
uint64_t number(const std::string& text, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i > 0; --i) value = value << 8 | static_cast<unsigned char>(text[at + i - 1]);
  return value;
}

bool is_at(const std::string& text, size_t at, const char* signature) { return text.compare(at, 4, signature) == 0; }

std::string read(const ZipByteSource& file, uint64_t at, uint64_t bytes) {
  std::string text(bytes, '\0');
  file.read(text.data(), static_cast<int64_t>(bytes), static_cast<int64_t>(at));
  return text;
}

// Returns the text of the central directory.
std::optional<std::string> find_directory(const ZipByteSource& file) {
  const uint64_t size = file.size;
  const auto part = [&](uint64_t begin, uint64_t bytes) -> std::optional<std::string> {
    if (begin > size || bytes > std::min(size - begin, kMaxDirectoryBytes)) return std::nullopt;
    return read(file, begin, bytes);
  };
  if (size < kEndBytes) return std::nullopt;
  const uint64_t tail_bytes = std::min(size, kEndBytes + kLongestComment + kLocatorBytes);
  const std::string tail = read(file, size - tail_bytes, tail_bytes);
  const size_t end = tail.rfind("PK\5\6", tail.size() - kEndBytes);
  if (end == std::string::npos) return std::nullopt;
  if (end < kLocatorBytes || !is_at(tail, end - kLocatorBytes, "PK\6\7"))
    return part(number(tail, end + 16, 4), number(tail, end + 12, 4));
  const auto long_end = part(number(tail, end - kLocatorBytes + 8, 8), kLongEndBytes);
  if (!long_end || !is_at(*long_end, 0, "PK\6\6")) return std::nullopt;
  return part(number(*long_end, 48, 8), number(*long_end, 40, 8));
}

// Reads 64-bit sizes from the zip64 extra field. It holds, in this order, only the numbers that exceed 32 bits.
void widen(const std::string& text, size_t at, size_t end, ZipDirectoryEntry& record) {
  for (size_t bytes = 0; at + 4 <= end; at += 4 + bytes) {
    bytes = number(text, at + 2, 2);
    if (number(text, at, 2) != 1) continue;
    const size_t field_end = std::min(end, at + 4 + bytes);
    size_t next = at + 4;
    for (uint64_t* value : {&record.unpacked_bytes, &record.stored_bytes, &record.offset}) {
      if (*value != kElsewhere || next + 8 > field_end) continue;
      *value = number(text, next, 8);
      next += 8;
    }
    return;
  }
}

}  // namespace

ZipByteSource zip_bytes(const RandomAccessFileReader& file) {
  return {static_cast<uint64_t>(file.size()),
          [&file](char* data, int64_t bytes, int64_t offset) { file.read(data, bytes, offset); }};
}

ZipByteSource zip_bytes(const std::string_view& text) {
  return {text.size(), [text](char* data, int64_t bytes, int64_t offset) {
            text.copy(data, static_cast<size_t>(bytes), static_cast<size_t>(offset));
          }};
}

std::optional<uint64_t> content_begin(const ZipByteSource& archive, const ZipDirectoryEntry& record) {
  if (record.offset > archive.size || archive.size - record.offset < kHeaderBytes) return std::nullopt;
  const std::string header = read(archive, record.offset, kHeaderBytes);
  if (!is_at(header, 0, "PK\3\4")) return std::nullopt;
  const uint64_t begin = record.offset + kHeaderBytes + number(header, 26, 2) + number(header, 28, 2);
  if (begin > archive.size || record.stored_bytes > archive.size - begin) return std::nullopt;
  return begin;
}

std::optional<std::vector<ZipDirectoryEntry>> read_zip_directory(const ZipByteSource& archive) {
  const std::optional<std::string> found = find_directory(archive);
  if (!found) return std::nullopt;
  const std::string& text = *found;
  std::vector<ZipDirectoryEntry> records;
  for (size_t at = 0; at < text.size();) {
    if (at + kRecordBytes > text.size() || !is_at(text, at, "PK\1\2")) return std::nullopt;
    const size_t name = at + kRecordBytes, extra = name + number(text, at + 28, 2);
    const size_t end = extra + number(text, at + 30, 2), next = end + number(text, at + 32, 2);
    if (next > text.size()) return std::nullopt;
    records.push_back({text.substr(name, extra - name), number(text, at + 42, 4), number(text, at + 20, 4),
                       number(text, at + 24, 4), static_cast<uint32_t>(number(text, at + 16, 4)),
                       number(text, at + 10, 2) != 0});
    widen(text, extra, end, records.back());
    at = next;
  }
  return records;
}

}  // namespace memtune::model
