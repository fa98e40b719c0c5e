// Front end for files of torch.jit.script and torch.jit.trace.
#pragma once

#include "core/model/frontend/front_end.h"

namespace memtune::frontend {

class TorchScriptFrontEnd final : public FrontEnd {
 public:
  bool claims(const DetectedModelSource& probe) const override;
  program::Program lower(const ModelSourceAndLoweringOptions& source) const override;
};

}  // namespace memtune::frontend
