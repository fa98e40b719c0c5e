#include "core/frontend/transformers/transformers_front_end.h"

#include <algorithm>

#include "core/config/model_profile.h"
#include "core/config/weight_files.h"
#include "core/frontend/adapter/quantizer.h"
#include "core/frontend/dtype.h"
#include "core/frontend/transformers/decoder_writer.h"

namespace memtune::frontend {

namespace {

// Which masks sdpa needs beyond a window is known where the sequence is.
int64_t longest(const config::TransformersConfig& config, const DecoderSetting& setting) {
  int64_t least = config.longest;
  if (setting.packed || setting.attention == Attention::eager || setting.sequence > 0) return least;
  for (const int64_t window : config.windows)
    if (window > 0 && (least == 0 || window <= least)) least = std::max<int64_t>(window - 1, 1);
  return least;
}

// A profile has no weights.
struct Described {
  config::TransformersConfig config;
  std::vector<std::filesystem::path> weights;
};

Described describe(const config::ModelSource& model) {
  if (!model.profile.empty()) return {config::parse_model_profile("model profile", model.profile).model, {}};
  const std::filesystem::path path = probe(model).file.config;
  return {config::read_transformers_config(path), config::weight_files(path)};
}

}  // namespace

program::Program TransformersFrontEnd::lower(const Source& source) const {
  const auto [config, files] = describe(source.model);
  const auto options = at::TensorOptions(weight_type(source.dtype.empty() ? config.dtype : source.dtype));
  TransformersWeights weights(files, config, options.device(source.device), source.seed);
  program::Program program;
  program.kind = source.model.profile.empty() ? "config" : "profile";
  const DecoderSetting setting{parse_attention(source.attention), source.pack, source.sequence};
  program.longest = longest(config, setting);
  if (!source.load_in.empty()) program.as_written = quantize_as_written(source.load_in);
  write_decoder(program, config, weights, options.device(source.device), setting);
  if (const std::string note = weights.note(); !note.empty() && source.model.profile.empty())
    program.notes.push_back(note);
  return program;
}

}  // namespace memtune::frontend
