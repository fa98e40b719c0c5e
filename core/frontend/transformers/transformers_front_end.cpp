#include "core/frontend/transformers/transformers_front_end.h"

#include "core/config/weight_files.h"
#include "core/frontend/dtype.h"
#include "core/frontend/transformers/decoder_writer.h"

namespace memtune::frontend {

program::Program TransformersFrontEnd::lower(const Source& source) const {
  const std::filesystem::path path = probe(source.model).file.config;
  const config::TransformersConfig config = config::read_transformers_config(path);
  const auto options = at::TensorOptions(weight_type(source.dtype.empty() ? config.dtype : source.dtype));
  TransformersWeights weights(config::weight_files(path), config, options.device(source.device), source.seed);
  program::Program program;
  program.kind = "config";
  program.longest = config.longest;
  write_decoder(program, config, weights, options.device(source.device));
  if (const std::string note = weights.note(); !note.empty()) program.notes.push_back(note);
  return program;
}

}  // namespace memtune::frontend
