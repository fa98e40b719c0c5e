// Front end for transformers decoders with a config.json. Emits the operators that the modeling code runs in training,
// with its module paths and class names.
#pragma once

#include "core/model/frontend/front_end.h"

namespace memtune::frontend {

class TransformersFrontEnd final : public FrontEnd {
 public:
  bool claims(const DetectedModelSource& probe) const override { return probe.has_config(); }
  program::Program lower(const ModelSourceAndLoweringOptions& source) const override;
};

}  // namespace memtune::frontend
