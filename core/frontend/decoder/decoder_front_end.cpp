#include "core/frontend/decoder/decoder_front_end.h"

#include "core/frontend/decoder/decoder.h"
#include "core/frontend/dtype.h"

namespace memtune::frontend {

program::Program DecoderFrontEnd::lower(const Source& source) const {
  const auto profile = config::parse_decoder_profile("model profile", source.model.profile);
  const at::ScalarType type = weight_type(source.dtype.empty() ? profile.dtype : source.dtype);
  return build_decoder(profile, type, source.device, source.seed, source.sequence);
}

}  // namespace memtune::frontend
