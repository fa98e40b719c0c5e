#include "core/frontend/zip_directory.h"

#include <algorithm>
#include <limits>
#include <string>

namespace memtune::frontend {
namespace {

constexpr int64_t kEndBytes = 22, kLongestComment = 65535, kLocatorBytes = 20, kLongEndBytes = 56, kEntryBytes = 46;
constexpr uint64_t kElsewhere = 0xFFFFFFFF;  // a size of 32 bits that stands in 64 bits among the extra fields

uint64_t number(const std::string& text, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i > 0; --i) value = value << 8 | static_cast<unsigned char>(text[at + i - 1]);
  return value;
}

bool is_at(const std::string& text, size_t at, const char* signature) { return text.compare(at, 4, signature) == 0; }

std::string read(const InputFile& file, int64_t at, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  file.read(text.data(), bytes, at);
  return text;
}

struct Directory {
  uint64_t begin = 0, bytes = 0;
};

std::optional<Directory> find_directory(const InputFile& file) {
  if (file.size() < kEndBytes) return std::nullopt;
  const int64_t tail_bytes = std::min(file.size(), kEndBytes + kLongestComment + kLocatorBytes);
  const int64_t tail_at = file.size() - tail_bytes;
  const std::string tail = read(file, tail_at, tail_bytes);
  const size_t end = tail.rfind("PK\5\6", tail.size() - kEndBytes);
  if (end == std::string::npos) return std::nullopt;
  if (end < kLocatorBytes || !is_at(tail, end - kLocatorBytes, "PK\6\7"))
    return Directory{number(tail, end + 16, 4), number(tail, end + 12, 4)};
  const uint64_t at = number(tail, end - kLocatorBytes + 8, 8);
  if (file.size() < kLongEndBytes || at > static_cast<uint64_t>(file.size() - kLongEndBytes)) return std::nullopt;
  const std::string long_end = read(file, static_cast<int64_t>(at), kLongEndBytes);
  if (!is_at(long_end, 0, "PK\6\6")) return std::nullopt;
  return Directory{number(long_end, 48, 8), number(long_end, 40, 8)};
}

// Of the entry at `at`, whose extra fields end at `end`.
uint64_t size_of_entry(const std::string& text, size_t at, size_t extra, size_t end) {
  const uint64_t size = number(text, at + 24, 4);
  if (size != kElsewhere) return size;
  while (extra + 4 <= end) {
    const size_t bytes = number(text, extra + 2, 2);
    if (number(text, extra, 2) == 1 && bytes >= 8 && extra + 12 <= end) return number(text, extra + 4, 8);
    extra += 4 + bytes;
  }
  return size;
}

}  // namespace

std::optional<int64_t> unpacked_bytes(const InputFile& archive) {
  const auto directory = find_directory(archive);
  const auto most = static_cast<uint64_t>(archive.size());
  if (!directory || directory->begin > most || directory->bytes > most - directory->begin) return std::nullopt;
  const std::string text =
      read(archive, static_cast<int64_t>(directory->begin), static_cast<int64_t>(directory->bytes));
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  uint64_t sum = 0;
  for (size_t at = 0; at < text.size();) {
    if (at + kEntryBytes > text.size() || !is_at(text, at, "PK\1\2")) return std::nullopt;
    const size_t extra = at + kEntryBytes + number(text, at + 28, 2);
    const size_t end = extra + number(text, at + 30, 2), next = end + number(text, at + 32, 2);
    if (next > text.size()) return std::nullopt;
    sum += std::min(size_of_entry(text, at, extra, end), kMost - sum);
    at = next;
  }
  return static_cast<int64_t>(sum);
}

}  // namespace memtune::frontend
