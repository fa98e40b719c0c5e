#include "core/model/pt2/pt2_archive.h"

#include <array>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/model/pt2/zip_directory.h"

namespace memtune::model {
namespace {

constexpr int64_t kMaxTextBytes = int64_t{1} << 30;  // a larger record is no model's

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320 : 0);
    table[byte] = value;
  }
  return table;
}

uint32_t crc32(const std::string& text) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t value = 0xFFFFFFFF;
  for (const char c : text) value = value >> 8 ^ kTable[(value ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~value;
}

[[noreturn]] void damaged(const std::string& why) { throw UsageError("it is damaged or cut off: " + why); }

}  // namespace

Pt2Archive::Pt2Archive(const std::filesystem::path& path) : file_(path) {
  const ZipByteSource bytes = zip_bytes(file_);
  const auto records = read_zip_directory(bytes);
  if (!records) damaged("the archive's directory is missing or invalid");
  for (const ZipDirectoryEntry& record : *records) {
    if (record.packed || record.stored_bytes != record.unpacked_bytes)
      throw UsageError("'" + printable(record.name) + "' is compressed, which torch.export.save never does");
    const auto begin = content_begin(bytes, record);
    if (!begin) damaged("'" + printable(record.name) + "' is not where its directory says, or lies outside of it");
    const Place place{static_cast<int64_t>(*begin), static_cast<int64_t>(record.stored_bytes), record.checksum};
    if (!records_.emplace(record.name.substr(record.name.find('/') + 1), place).second)
      damaged("'" + printable(record.name) + "' is there twice");
  }
}

const Pt2Archive::Place& Pt2Archive::find(const std::string& record) const {
  const auto found = records_.find(record);
  if (found == records_.end()) damaged("it has no record '" + printable(record) + "'");
  return found->second;
}

void Pt2Archive::read(const std::string& record, char* to) const {
  const Place& place = find(record);
  file_.read(to, place.bytes, place.begin);
}

std::string Pt2Archive::text(const std::string& record) const {
  const Place& place = find(record);
  if (place.bytes > kMaxTextBytes) throw UsageError("'" + record + "' has " + format_bytes(place.bytes));
  std::string content(static_cast<size_t>(place.bytes), '\0');
  read(record, content.data());
  if (crc32(content) != place.checksum) damaged("'" + record + "' differs from its checksum");
  return content;
}

}  // namespace memtune::model
