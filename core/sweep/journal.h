// What a sweep has begun and finished, on disk before and after each trial, so that it goes on where it was killed.
//
//   <16 hexadecimal digits of XXH3 over the rest> {"event": "start", "key": .., "folder": .., "strategy": ..}
//   <...>                                         {"event": "end", "key": .., "outcome": ..}
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/file_system.h"

namespace memtune::sweep {

struct JournalEntry {
  std::string key;
  std::string folder;  // relative to the run directory; a key keeps its folder for ever
  std::string strategy;
  std::string outcome;  // "" until it has ended
};

class Journal {
 public:
  // Reads `path` if it exists. A damaged or cut tail is removed from the file; a damaged line with good ones behind
  // it is skipped. Both are told in notes(). Throws IoError.
  explicit Journal(std::filesystem::path path, FileSystem& system = system_files());

  void start(const std::string& key, const std::string& folder, const std::string& strategy);
  void end(const std::string& key, const std::string& outcome);

  // nullptr when the key was never started.
  const JournalEntry* find(const std::string& key) const;
  // Keys seen so far.
  size_t size() const { return entries_.size(); }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void read();
  bool apply(const std::string& line);
  void append(const std::string& record);

  std::filesystem::path path_;
  FileSystem& system_;
  std::map<std::string, JournalEntry> entries_;
  std::vector<std::string> notes_;
};

}  // namespace memtune::sweep
