#include "core/model/frontend/detected_model_source.h"

namespace memtune::frontend {

DetectedModelSource probe(const plan::ModelAndInputSource& source) {
  if (!source.profile.empty()) return {true, {}};
  return {false, model::inspect_model_file(source.path)};
}

}  // namespace memtune::frontend
