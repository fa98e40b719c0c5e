#include "core/record/trace/kinds.h"

#include <algorithm>
#include <array>

namespace memtune::trace {
namespace {

// Each array is in the order of its enum.
constexpr std::array kEventWords = {"kernel", "copy_out",   "copy_in",   "copy_device", "memset", "wait",      "op",
                                    "region", "disk_write", "disk_read", "save",        "use",    "collective"};
constexpr std::array kRoleWords = {"steps",      "phases",    "blocks", "compute", "copy_out", "copy_in", "collectives",
                                   "disk_write", "disk_read", "values", "ops",     "reruns",   "host",    "stream"};
constexpr std::array kPassWords = {"forward", "backward", "recompute", "optimizer"};
constexpr std::array kOwnerWords = {"parameters", "optimizer", "gradients", "inputs",
                                    "ahead",      "block",     "outside",   "work_space"};

template <typename Enum, size_t N>
std::optional<Enum> find(const std::array<const char*, N>& words, std::string_view word) {
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) return {};
  return static_cast<Enum>(found - words.begin());
}

}  // namespace

std::string to_string(EventKind kind) { return kEventWords.at(static_cast<size_t>(kind)); }
std::string to_string(TrackRole role) { return kRoleWords.at(static_cast<size_t>(role)); }
std::string to_string(Pass pass) { return kPassWords.at(static_cast<size_t>(pass)); }
std::string to_string(MemoryOwnerKind kind) { return kOwnerWords.at(static_cast<size_t>(kind)); }

std::optional<TrackRole> parse_track_role(std::string_view word) { return find<TrackRole>(kRoleWords, word); }
std::optional<MemoryOwnerKind> parse_owner_kind(std::string_view word) {
  return find<MemoryOwnerKind>(kOwnerWords, word);
}

bool on_device(TrackRole role) {
  switch (role) {
    case TrackRole::phases:
    case TrackRole::blocks:
    case TrackRole::compute:
    case TrackRole::copy_out:
    case TrackRole::copy_in:
    case TrackRole::collectives:
    case TrackRole::stream: return true;
    case TrackRole::steps:
    case TrackRole::disk_write:
    case TrackRole::disk_read:
    case TrackRole::values:
    case TrackRole::ops:
    case TrackRole::reruns:
    case TrackRole::host: break;
  }
  return false;
}

}  // namespace memtune::trace
