#include "core/model/frontend/model_probe.h"

namespace memtune::frontend {

ModelProbe probe(const plan::ModelSource& source) {
  if (!source.profile.empty()) return {true, {}};
  return {false, model::inspect_model_file(source.path)};
}

}  // namespace memtune::frontend
