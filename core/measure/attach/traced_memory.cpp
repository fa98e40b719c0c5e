#include "core/measure/attach/traced_memory.h"

#include <optional>

#include "core/base/confined_file_system.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/record/trace/bounds.h"

namespace memtune::attach {
namespace {

using result::StepMemoryCategory;
using trace::MemoryOwnerKind;

constexpr int64_t kMaxPathBytes = int64_t{64} << 20;  // of a file of call paths

// The other kinds have no owner: they are work space of ops.
std::optional<trace::MemoryOwner> owner_of(StepMemoryCategory kind) {
  switch (kind) {
    case StepMemoryCategory::parameters: return trace::MemoryOwner{MemoryOwnerKind::parameters, "parameters"};
    case StepMemoryCategory::gradients: return trace::MemoryOwner{MemoryOwnerKind::gradients, "gradients"};
    case StepMemoryCategory::optimizer: return trace::MemoryOwner{MemoryOwnerKind::optimizer, "optimizer"};
    case StepMemoryCategory::buffers: return trace::MemoryOwner{MemoryOwnerKind::inputs, "buffers"};
    case StepMemoryCategory::inputs: return trace::MemoryOwner{MemoryOwnerKind::inputs, "inputs"};
    case StepMemoryCategory::activations: return trace::MemoryOwner{MemoryOwnerKind::outside, "activations"};
    case StepMemoryCategory::logits: return trace::MemoryOwner{MemoryOwnerKind::outside, "logits and loss"};
    case StepMemoryCategory::attention: return trace::MemoryOwner{MemoryOwnerKind::outside, "attention scores"};
    case StepMemoryCategory::temporaries:
    case StepMemoryCategory::workspace:
    case StepMemoryCategory::rounding:
    case StepMemoryCategory::other: break;
  }
  return {};
}

}  // namespace

void add_memory(const TracedStepMemoryRecord& record, int64_t shift_ns, trace::Trace& to) {
  std::vector<std::pair<size_t, int64_t>> owned;  // kinds with an owner, in the order of those; their last bytes
  for (size_t kind = 0; kind < result::kMemoryKinds; ++kind)
    if (const auto owner = owner_of(static_cast<StepMemoryCategory>(kind))) {
      to.owners.push_back(*owner);
      owned.emplace_back(kind, 0);
    }
  for (const MemoryCurvePoint& moment : record.curve) {
    const int64_t time_ns = moment.time_ns + shift_ns;
    if (!trace::is_trace_time(time_ns)) continue;
    to.memory.push_back({time_ns, moment.bytes});
    for (uint32_t owner = 0; owner < owned.size(); ++owner) {
      auto& [kind, bytes] = owned[owner];
      if (moment.by_kind[kind] != bytes) to.owned.push_back({time_ns, owner, bytes = moment.by_kind[kind]});
    }
  }
}

void fill_memory(const TracedStepMemoryRecord& record, const std::filesystem::path& folder,
                 const std::filesystem::path& target, FileSystem& files, result::TrialMeasurement& to,
                 std::vector<std::string>& notes) {
  to.memory = record.figures;
  if (!record.figures.complete)
    notes.push_back("the step's allocations are more than were kept: who held memory at its begin is not known");
  if (record.file.empty()) return;
  try {
    ConfinedFileSystem confined(folder);
    const auto paths = result::parse_call_paths(read_file(folder / record.file, confined, kMaxPathBytes));
    write_file(target, to_text(paths), files);
    to.memory->paths = target.filename().string();
  } catch (const Error& error) {
    notes.push_back("call paths of the memory cannot be kept: " + std::string(error.what()));
  }
}

}  // namespace memtune::attach
