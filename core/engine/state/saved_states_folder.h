// The saved states in a run's folder:
//
//   states/step-00000004/   shard-00001-model-00001-of-00001.safetensors   manifest.json
//                           shard-00002-model-00001-of-00001.safetensors   of rank 1, if there are several ranks
//                           shard-00002.json                               its part, until there is a manifest
//   states/latest           the name of the newest, for users and scripts
//
// A folder without a manifest is not yet a state, or no longer. The run's folder may contain links and foreign files:
// no link is followed, and only files that memtune wrote are removed. Only one training may write at a time, which its
// caller ensures. Only rank 0 publishes and removes.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/base/confined_file_system.h"
#include "core/engine/disk/async_file_io.h"
#include "core/engine/state/state_manifest.h"

namespace memtune::state {

inline constexpr const char* kManifest = "manifest.json";
inline constexpr const char* kLatest = "latest";
inline constexpr const char* kDataFile = "shard-00001-model-00001-of-00001.safetensors";

// True if the name has the form of a data file, for any rank and any number of files.
bool is_data_file(const std::string& name);
std::string folder_name(int64_t step);
std::string data_file(int rank);
std::string part_file(int rank);

// One of the processes that save a state together, each a part of it.
struct DistributedSaveRankSettings {
  int rank = 0, ranks = 1;
  std::chrono::milliseconds timeout{120'000};  // timeout of rank 0 for the parts of the others
};

class SavedStatesFolder {
 public:
  // Creates nothing. `below` must outlive this.
  explicit SavedStatesFolder(const std::filesystem::path& run,
                             disk::AsyncDirectIoFileSystem& below = disk::system_disk());

  const std::filesystem::path& root() const { return root_; }  // run/states
  std::filesystem::path path(int64_t step) const { return root_ / folder_name(step); }
  FileSystem& files() const { return files_; }
  disk::AsyncDirectIoFileSystem& disk() const { return disk_; }  // for open files

  // Settings of the training, which each state stores from now on.
  void set_settings(Settings settings) { settings_ = std::move(settings); }
  const Settings& settings() const { return settings_; }

  // One of one rank by default.
  void set_rank(const DistributedSaveRankSettings& rank) { rank_ = rank; }
  const DistributedSaveRankSettings& rank() const { return rank_; }

  // Creates the folder, if missing, in that of the run. Throws IoError.
  void make();
  // Steps of all published states, ascending. It does not check whether they are intact. Empty if there is no folder.
  std::vector<int64_t> steps() const;
  bool has(int64_t step) const { return has_manifest(folder_name(step)); }

  // Removes memtune's files of the state, and the folder if it is empty then. From the start of the removal it is no
  // longer a state, even if the removal fails. Throws IoError.
  void remove(int64_t step);
  // Removes unfinished saves of steps before `end`. Throws IoError.
  void remove_remains(int64_t end = std::numeric_limits<int64_t>::max());
  // Removes all but the newest `count`; 0: keeps all. Throws IoError.
  void keep_last(int64_t count);

 private:
  std::vector<std::string> names() const;
  bool has_manifest(const std::string& name) const;

  std::filesystem::path root_;
  disk::AsyncDirectIoFileSystem& disk_;
  mutable ConfinedFileSystem files_;
  Settings settings_;
  DistributedSaveRankSettings rank_;
};

}  // namespace memtune::state
