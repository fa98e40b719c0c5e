#include "core/model/frontend/probe.h"

namespace memtune::frontend {

Probe probe(const plan::ModelSource& source) {
  if (!source.profile.empty()) return {true, {}};
  return {false, model::look_at_model(source.path)};
}

}  // namespace memtune::frontend
