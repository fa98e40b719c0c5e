#include "core/model/frontend/torchscript/torchscript_front_end.h"

#include <optional>

#include "core/model/frontend/generated_mask.h"
#include "core/model/frontend/library.h"
#include "core/model/frontend/torchscript/lowering.h"
#include "core/model/frontend/torchscript/module_file.h"
#include "core/model/frontend/torchscript/unsafe_operator_blocker.h"

namespace memtune::frontend {
namespace {

const char* const kFixedByTrace = "traced: dropout, branches and batch-norm mode are fixed as they were recorded";
const char* const kCastsOfTrace = "traced: casts to a dtype that were recorded stay as they are";

}  // namespace

bool TorchScriptFrontEnd::claims(const DetectedModelSource& probe) const {
  return !probe.has_config() && !probe.file.exported && probe.file.unusable_reason.empty();
}

program::Program TorchScriptFrontEnd::lower(const ModelSourceAndLoweringOptions& source) const {
  load_libraries(source.model.libraries);  // first, because these operators may reach outside too
  std::optional<UnsafeOperatorBlocker> refused;
  if (!source.model.trusted) refused.emplace();
  const torch::jit::Module module = load_module(source);
  program::Program program = lower_module(module, source.device, source.model.arguments);
  program.kind = was_traced(module) ? "traced" : "scripted";
  if (const std::string note = note_on_generated_mask(program); !note.empty()) program.notes.push_back(note);
  if (program.kind == "scripted") {
    if (const std::string note = note_on_evaluation(module); !note.empty()) program.notes.push_back(note);
    return program;
  }
  program.notes.emplace_back(kFixedByTrace);
  if (!source.dtype.empty()) program.notes.emplace_back(kCastsOfTrace);
  return program;
}

}  // namespace memtune::frontend
