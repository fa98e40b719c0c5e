#include "core/model/frontend/model_probe_result.h"

namespace memtune::frontend {

ModelProbeResult probe(const plan::ModelAndInputSource& source) {
  if (!source.profile.empty()) return {true, {}};
  return {false, model::inspect_model_file(source.path)};
}

}  // namespace memtune::frontend
