// Decoders of transformers, out of their config.json: the operators that its modeling code runs in training, with its
// paths and class names, attention "sdpa", without padding.
#pragma once

#include "core/frontend/front_end.h"

namespace memtune::frontend {

class TransformersFrontEnd final : public FrontEnd {
 public:
  bool claims(const Probe& probe) const override { return probe.has_config(); }
  program::Program lower(const Source& source) const override;
};

}  // namespace memtune::frontend
