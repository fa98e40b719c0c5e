#include "core/record/measurement/out_of_memory_breakdown.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::result {
namespace {

// In the order of PeakMemoryTrainingPhase.
const std::vector<std::string>& phase_names() {
  static const std::vector<std::string> names = {"forward", "backward", "update", "no_gradients", "other"};
  return names;
}

}  // namespace

std::string to_string(PeakMemoryTrainingPhase phase) { return phase_names().at(static_cast<size_t>(phase)); }

PeakMemoryTrainingPhase parse_memory_phase(const std::string& text) {
  const auto found = std::ranges::find(phase_names(), text);
  if (found == phase_names().end()) throw UsageError(unknown_name("phase", text, phase_names()));
  return static_cast<PeakMemoryTrainingPhase>(found - phase_names().begin());
}

}  // namespace memtune::result
