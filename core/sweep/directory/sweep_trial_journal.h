// Journal of a sweep, written before and after each trial, so that a killed sweep resumes where it stopped.
//
//   <16 hexadecimal digits of XXH3 over the rest> {"file": "memtune journal", "version": 1}
//   <...>                                         {"event": "start", "key": .., "folder": .., "strategy": ..}
//   <...>                                         {"event": "end", "key": .., "outcome": ..}
//
// It is text, with a checksum per line: people can read it, a damaged line loses only itself, and a truncated end is
// detected. The first line has a checksum too: a flipped bit in it is damage, not another version.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/base/file_system.h"

namespace memtune::sweep {

struct JournaledTrialState {
  std::string key;
  std::string folder;  // relative to the run directory; a key never changes its folder
  std::string strategy;
  std::string outcome;  // "" until it ends
};

class SweepTrialJournal {
 public:
  // Reads `path` if it exists. A damaged or truncated end is removed from the file, a damaged line before valid ones is
  // skipped; notes() reports both. Throws IoError; UsageError for a later version or a file that is no journal.
  explicit SweepTrialJournal(std::filesystem::path path, FileSystem& system = system_files());

  void start(const std::string& key, const std::string& folder, const std::string& strategy);
  void end(const std::string& key, const std::string& outcome);

  // nullptr if the key was never started.
  const JournaledTrialState* find(const std::string& key) const;
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void read();
  bool apply(const std::string& line);
  void check_version(const nlohmann::json& first) const;
  void append(const std::string& record);

  std::filesystem::path path_;
  FileSystem& system_;
  bool empty_ = true;
  std::map<std::string, JournaledTrialState> entries_;
  std::vector<std::string> notes_;
};

}  // namespace memtune::sweep
