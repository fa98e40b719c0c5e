#include "core/engine/state/rank_parts.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "core/base/file.h"
#include "core/base/json.h"

namespace memtune::state {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kFailed = "failed";
constexpr milliseconds kMaxPause{10};  // between two checks

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

bool is_there(SavedStatesFolder& folder, int64_t step, int rank) {
  return FileDescriptor(folder.files().open(folder.path(step) / part_file(rank), O_RDONLY, 0)).get() >= 0;
}

// The file is empty if the rank could not write why it failed.
StateManifest read_part(SavedStatesFolder& folder, int64_t step, int rank) {
  const std::string text = read_file(folder.path(step) / part_file(rank), folder.files());
  try {
    if (text.empty()) throw IoError(rank_text(rank) + " could not save its part");
    if (const json value = parse_json(text, JsonDuplicateKeyPolicy::refused); value.contains(kFailed))
      throw IoError(rank_text(rank) + ": " + value.at(kFailed).get<std::string>());
    StateManifest part = parse_manifest(text);
    if (part.step != step || part.files.size() != 1 || part.files.front().name != data_file(rank))
      throw DamagedSavedStateError("it is another's");
    return part;
  } catch (const json::exception&) {
    throw IoError("the part of " + rank_text(rank) + " is none");
  } catch (const DamagedSavedStateError& why) {
    throw IoError("the part of " + rank_text(rank) + " is none: " + why.what());
  }
}

void add(StateManifest part, StateManifest& to) {
  for (ManifestTensorEntry& tensor : part.tensors) {
    tensor.file = to.files.size();
    to.tensors.push_back(std::move(tensor));
  }
  to.files.push_back(std::move(part.files.front()));
}

void check(const StateManifest& manifest) try { check_whole(manifest); } catch (const DamagedSavedStateError& why) {
  throw Error(std::string("the ranks' parts do not form a state: ") + why.what());
}

}  // namespace

void publish_part(SavedStatesFolder& folder, const StateManifest& own) {
  write_file(folder.path(own.step) / part_file(folder.rank().rank), print(own), folder.files());
}

void publish_failure(SavedStatesFolder& folder, int64_t step, const std::string& why) {
  const std::filesystem::path path = folder.path(step) / part_file(folder.rank().rank);
  folder.files().make_folder(folder.path(step));  // it may fail before the folder exists
  try {
    write_file(path, json{{kFailed, why}}.dump(-1, ' ', false, json::error_handler_t::replace) + "\n", folder.files());
  } catch (const IoError&) {
    const FileDescriptor empty(folder.files().open(path, O_CREAT | O_WRONLY, 0666));  // a full disk has room for a name
  }
}

StateManifest merge_rank_manifests(SavedStatesFolder& folder, StateManifest own) {
  const DistributedSaveRankSettings& ranks = folder.rank();
  if (ranks.ranks == 1) return own;
  const Clock::time_point end = Clock::now() + ranks.timeout;
  for (int rank = 1; rank < ranks.ranks; ++rank) {
    for (milliseconds pause{1}; !is_there(folder, own.step, rank); pause = std::min(kMaxPause, pause * 2)) {
      if (Clock::now() >= end)
        throw IoError(rank_text(rank) + " did not save its part of step " + std::to_string(own.step) + " within " +
                      std::to_string(ranks.timeout.count()) + " ms");
      std::this_thread::sleep_for(pause);
    }
    add(read_part(folder, own.step, rank), own);
  }
  check(own);
  return own;
}

void remove_parts(SavedStatesFolder& folder, int64_t step) {
  for (int rank = 1; rank < folder.rank().ranks; ++rank) folder.files().unlink(folder.path(step) / part_file(rank));
}

}  // namespace memtune::state
