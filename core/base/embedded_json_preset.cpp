#include "core/base/embedded_json_preset.h"

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune {

// profiles() is generated from the JSON files: profiles/CMakeLists.txt.
const EmbeddedJsonPreset& find_profile(std::string_view kind, std::string_view name) {
  std::vector<std::string> known;
  for (const EmbeddedJsonPreset& profile : profiles()) {
    if (profile.kind != kind) continue;
    if (profile.name == name) return profile;
    known.emplace_back(profile.name);
  }
  const std::string singular(kind.ends_with('s') ? kind.substr(0, kind.size() - 1) : kind);
  throw UsageError(unknown_name(singular + " profile", name, known));
}

}  // namespace memtune
