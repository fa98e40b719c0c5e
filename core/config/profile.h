// The JSON files under profiles/, embedded in the program at build time so that it needs no data files.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace memtune::config {

struct Profile {
  std::string_view kind;  // "models" | "sweeps" | "trainers" | "training" | "machines": the folder
  std::string_view name;  // file name without .json
  std::string_view json;
};

std::span<const Profile> profiles();

// UsageError with the known names (and the nearest one) when there is none.
const Profile& find_profile(std::string_view kind, std::string_view name);

}  // namespace memtune::config
