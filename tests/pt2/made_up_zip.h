// Synthetic zip archives for tests: valid ones and ones with wrong fields.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace memtune::test {

// Encodes a number in little-endian order.
inline std::string little(uint64_t number, int count) {
  std::string text;
  for (int i = 0; i < count; ++i, number >>= 8) text += static_cast<char>(number);
  return text;
}

inline uint32_t crc32(const std::string& text) {
  uint32_t value = 0xFFFFFFFF;
  for (const char c : text) {
    value ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320 : 0);
  }
  return ~value;
}

// Returns an archive of stored records in the folder "m". `extra`: the extra field of every directory entry.
inline std::string zip(const std::vector<std::pair<std::string, std::string>>& records, const std::string& extra = "") {
  std::string file, directory;
  for (const auto& [name, content] : records) {
    const std::string path = "m/" + name, sizes = little(content.size(), 4) + little(content.size(), 4);
    directory += "PK\1\2" + little(0, 12) + little(crc32(content), 4) + sizes + little(path.size(), 2) +
                 little(extra.size(), 2) + little(0, 10) + little(file.size(), 4) + path + extra;
    file += "PK\3\4" + little(0, 14) + sizes + little(path.size(), 2) + little(0, 2) + path + content;
  }
  return file + directory + "PK\5\6" + little(0, 8) + little(directory.size(), 4) + little(file.size(), 4) +
         little(0, 2);
}

}  // namespace memtune::test
