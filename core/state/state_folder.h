// The saved states in a run's folder:
//
//   states/step-00000004/   shard-00001-model-00001-of-00001.safetensors   manifest.json
//                           shard-00002-model-00001-of-00001.safetensors   of the second rank, where there are several
//                           shard-00002.json                               its part, until there is a manifest
//   states/latest           the name of the newest, for people and scripts
//
// A folder without a manifest is none yet, or none any more. Whoever made the folder may have put links or other files
// there: no link is followed, and nothing is removed that memtune did not write. The processes of one training write at
// a time, which is their caller's to see to; of them the first alone publishes and removes.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/base/own_folder.h"
#include "core/disk/file_io.h"
#include "core/state/manifest.h"

namespace memtune::state {

inline constexpr const char* kManifest = "manifest.json";
inline constexpr const char* kLatest = "latest";
inline constexpr const char* kDataFile = "shard-00001-model-00001-of-00001.safetensors";

// By their form: of other ranks, and of as many files as there may be.
bool is_data_file(const std::string& name);
std::string folder_name(int64_t step);
std::string data_file(int rank);
std::string part_file(int rank);

// Of the processes that save one state together, each its own part of it.
struct SavingRank {
  int rank = 0, ranks = 1;
  std::chrono::milliseconds patience{120'000};  // of the first, for the parts of the others
};

class StateFolder {
 public:
  // Makes nothing. `below` must outlive this.
  explicit StateFolder(const std::filesystem::path& run, disk::DiskSystem& below = disk::system_disk());

  const std::filesystem::path& root() const { return root_; }  // run/states
  std::filesystem::path path(int64_t step) const { return root_ / folder_name(step); }
  FileSystem& files() const { return files_; }
  disk::DiskSystem& disk() const { return disk_; }  // for open files

  // What the training has that makes states from now on: each of them says so.
  void set_settings(Settings settings) { settings_ = std::move(settings); }
  const Settings& settings() const { return settings_; }

  // One and all, unless it is said.
  void set_rank(const SavingRank& rank) { rank_ = rank; }
  const SavingRank& rank() const { return rank_; }

  // Makes the folder where it is missing, in that of the run. IoError.
  void make();
  // Of all published states, in their order; whether they are whole is not looked at. None where there is no folder.
  std::vector<int64_t> steps() const;
  bool has(int64_t step) const { return has_manifest(folder_name(step)); }

  // Takes away what memtune wrote of it, and the folder where that was all. From the first moment on it is no state any
  // more, whatever happens. IoError.
  void remove(int64_t step);
  // Takes away what saves left that were not finished, of steps before `end`. IoError.
  void remove_remains(int64_t end = std::numeric_limits<int64_t>::max());
  // Takes away all but the newest `count`; 0: keeps all. IoError.
  void keep_last(int64_t count);

 private:
  std::vector<std::string> names() const;
  bool has_manifest(const std::string& name) const;

  std::filesystem::path root_;
  disk::DiskSystem& disk_;
  mutable OwnFolder files_;
  Settings settings_;
  SavingRank rank_;
};

}  // namespace memtune::state
