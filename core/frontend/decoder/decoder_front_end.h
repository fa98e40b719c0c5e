// Built-in models: decoders out of a profile's numbers.
#pragma once

#include "core/frontend/front_end.h"

namespace memtune::frontend {

class DecoderFrontEnd final : public FrontEnd {
 public:
  bool claims(const Probe& probe) const override { return probe.is_profile; }
  program::Program lower(const Source& source) const override;
};

}  // namespace memtune::frontend
