// Front end for archives of torch.export.save: programs of the training dialect, as torch.export.export returns them.
#pragma once

#include "core/model/frontend/front_end.h"

namespace memtune::frontend {

class Pt2FrontEnd final : public FrontEnd {
 public:
  bool claims(const DetectedModelSource& probe) const override { return probe.file.exported; }
  program::Program lower(const ModelSourceAndLoweringOptions& source) const override;
};

}  // namespace memtune::frontend
