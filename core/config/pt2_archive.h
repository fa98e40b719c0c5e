// The records of a torch.export archive (.pt2), without LibTorch. All are stored as they are, so that a record is a
// part of the file: its place is checked against the file's size before anything is read, and text against its
// checksum.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "core/base/file.h"

namespace memtune::config {

class Pt2Archive {
 public:
  // UsageError, without the path: the directory makes no sense, or is not torch.export's. IoError.
  explicit Pt2Archive(const std::filesystem::path& path);

  bool has(const std::string& record) const { return records_.contains(record); }

  // Each throws UsageError where there is no such record.
  int64_t bytes(const std::string& record) const { return find(record).bytes; }
  void read(const std::string& record, char* to) const;  // all of it
  std::string text(const std::string& record) const;     // UsageError as well where its checksum differs

 private:
  struct Place {
    int64_t begin = 0, bytes = 0;
    uint32_t checksum = 0;
  };
  const Place& find(const std::string& record) const;

  InputFile file_;
  std::map<std::string, Place> records_;  // by name, without the folder that all are in
};

}  // namespace memtune::config
