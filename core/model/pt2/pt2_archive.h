// Reads records of a torch.export archive (.pt2) without LibTorch. Records are uncompressed byte ranges of the file.
// Each range is checked against the file's size before it is read; text is also checked against its checksum.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "core/base/file.h"

namespace memtune::model {

class Pt2Archive {
 public:
  // Throws UsageError (without the path) if the archive is damaged or not torch.export's, IoError if reading fails.
  explicit Pt2Archive(const std::filesystem::path& path);

  bool has(const std::string& record) const { return records_.contains(record); }

  // Each throws UsageError if the record is missing.
  int64_t bytes(const std::string& record) const { return find(record).bytes; }
  void read(const std::string& record, char* to) const;  // the whole record into `to`
  std::string text(const std::string& record) const;     // also throws UsageError if the checksum differs

 private:
  struct Place {
    int64_t begin = 0, bytes = 0;
    uint32_t checksum = 0;
  };
  const Place& find(const std::string& record) const;

  RandomAccessFileReader file_;
  std::map<std::string, Place> records_;  // by name, without the common top folder
};

}  // namespace memtune::model
