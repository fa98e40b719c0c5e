// The JSON files of profiles/, embedded at build time so that the program needs no data files.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace memtune {

struct EmbeddedJsonPreset {
  std::string_view kind;  // "models" | "sweeps" | "trainers" | "training" | "machines": the folder
  std::string_view name;  // file name without .json
  std::string_view json;
};

std::span<const EmbeddedJsonPreset> profiles();

// Throws UsageError with the known names and the nearest one if there is no such profile.
const EmbeddedJsonPreset& find_profile(std::string_view kind, std::string_view name);

}  // namespace memtune
