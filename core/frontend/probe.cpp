#include "core/frontend/probe.h"

namespace memtune::frontend {

Probe probe(const config::ModelSource& source) {
  if (!source.profile.empty()) return {true, {}};
  return {false, config::look_at_model(source.path)};
}

}  // namespace memtune::frontend
