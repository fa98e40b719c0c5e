#include "core/model/frontend/transformers/transformers_front_end.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/model/frontend/adapter/quantizer.h"
#include "core/model/frontend/dtype.h"
#include "core/model/frontend/safetensors.h"
#include "core/model/frontend/transformers/decoder_writer.h"
#include "core/model/safetensors/reader.h"
#include "core/model/source/builtin_model_config_and_input_shape.h"
#include "core/model/transformers/weight_files.h"

namespace memtune::frontend {

namespace {

constexpr int64_t kWidestHead = 256;  // of flash attention

// Without a known sequence no window mask is emitted, so the program supports only sequences within the windows.
int64_t longest(const model::TransformersConfig& config, const DecoderLoweringOptions& setting) {
  int64_t least = config.longest;
  if (setting.masked() || setting.sequence > 0) return least;
  for (const int64_t window : config.windows)
    if (window > 0 && (least == 0 || window <= least)) least = std::max<int64_t>(window - 1, 1);
  return least;
}

// A profile has no weight files.
struct DescribedModel {
  model::TransformersConfig config;
  std::vector<std::filesystem::path> weights;
  std::filesystem::path path = {};  // of the config.json
};

DescribedModel describe_model(const plan::ModelAndInputSource& model) {
  if (!model.profile.empty()) return {model::parse_model_profile("model profile", model.profile).model, {}, {}};
  const std::filesystem::path path = probe(model).file.config;
  model::TransformersConfig config = model::read_transformers_config(path, model.text_only);
  const bool quantized = !config.quantization.empty();  // packed weights are not read
  return {std::move(config), quantized ? std::vector<std::filesystem::path>() : model::weight_files(path), path};
}

DecoderLoweringOptions setting_of(const ModelSourceAndLoweringOptions& source) {
  if (source.pack && source.padded)
    throw UsageError("--pack and an attention_mask exclude each other: a packed row has no padding");
  if (source.pack && source.head != ModelOutputHeadKind::of_config)
    throw UsageError("--pack is for losses of tokens; --loss reward and embedding take a text in each row");
  DecoderLoweringOptions setting{
      parse_attention(source.attention), source.pack, source.padded, source.sequence, {}, source.head, {}};
  if (!source.autocast.empty()) setting.autocast = scalar_type(source.autocast);
  return setting;
}

// Throws UsageError for what the flash-varlen kernel does not support.
void check_flash(const model::TransformersConfig& config, const DecoderLoweringOptions& setting, at::ScalarType dtype) {
  const std::string flag = "--attention flash-varlen ";
  if (!setting.packed) throw UsageError(flag + "goes with --pack: it takes the lengths of a packed row's documents");
  const at::ScalarType type = setting.autocast.value_or(dtype);
  if (type != at::kBFloat16 && type != at::kHalf)
    throw UsageError(flag + "takes bfloat16 or float16, not " + name_of(type) + ": say --dtype bf16");
  if (config.score_cap) throw UsageError(flag + "knows no cap of scores, which this model has: say --attention eager");
  if (config.family.differential)
    throw UsageError(flag + "takes no difference of two attentions, which this model has: say --attention sdpa");
  if (config.latent) throw UsageError(flag + "takes no latent attention, which this model has: say --attention sdpa");
  std::vector<int64_t> widths = {config.head_width};
  for (const model::PerLayerConfigOverrides& layer : config.layer_configs) widths.push_back(layer.head_width);
  for (const int64_t width : widths)
    if (width > kWidestHead || width % 8 != 0)
      throw UsageError(flag + "takes heads of 8, 16 and so on to " + std::to_string(kWidestHead) + " numbers, not of " +
                       std::to_string(width));
}

// The dtype if the config names none, as in transformers: that of the first floating tensor, by name, in the first
// file.
at::ScalarType stored_type(const std::vector<std::filesystem::path>& files) {
  if (files.empty()) return at::kFloat;
  std::vector<safetensors::TensorEntry> entries = safetensors::Reader(files.front()).entries();
  std::ranges::sort(entries, {}, &safetensors::TensorEntry::name);
  for (const safetensors::TensorEntry& entry : entries)
    if (const at::ScalarType type = scalar_type(entry.dtype); at::isFloatingType(type)) return type;
  return at::kFloat;
}

at::ScalarType type_of_weights(const ModelSourceAndLoweringOptions& source, const DescribedModel& model) {
  const std::string& asked = source.dtype.empty() ? model.config.dtype : source.dtype;
  return asked.empty() ? stored_type(model.weights) : weight_type(asked);
}

// The newest parameters stay on the device: their layers may still be quantized.
constexpr size_t kNewest = 16;

std::function<void(program::Program&, const program::Op&)> as_written(const ModelSourceAndLoweringOptions& source) {
  std::function<void(program::Program&, const program::Op&)> quantize;
  if (!source.load_in.empty()) quantize = quantize_as_written(source.load_in);
  if (!source.weights_on_host) return quantize;
  return [quantize, moved = size_t{0}](program::Program& program, const program::Op& op) mutable {
    if (quantize) quantize(program, op);
    const program::NamedTensors& parameters = program.state.parameters;
    for (; moved + kNewest < parameters.size(); ++moved) program.state.host_weights->move(parameters[moved].second);
  };
}

}  // namespace

program::Program TransformersFrontEnd::lower(const ModelSourceAndLoweringOptions& source) const {
  DescribedModel model = describe_model(source.model);
  if (source.head == ModelOutputHeadKind::score) model.config = model::with_score(std::move(model.config));
  const model::TransformersConfig& config = model.config;
  const auto options = at::TensorOptions(type_of_weights(source, model));
  TransformersWeightProvider weights(model.weights, config, options.device(source.device), source.seed);
  program::Program program;
  program.kind = source.model.profile.empty() ? "config" : "profile";
  DecoderLoweringOptions setting = setting_of(source);
  if (source.head == ModelOutputHeadKind::embedding) setting.after = model::read_sentence_modules(model.path, config);
  const std::string& attention = source.attention.empty() ? config.attention : source.attention;
  model::check_attention(config, attention, setting.packed, setting.padded);
  model::check_load_in(config, source.load_in);
  if (setting.attention == AttentionImplementation::flash_varlen)
    check_flash(config, setting, c10::typeMetaToScalarType(options.dtype()));
  program.longest = longest(config, setting);
  program.as_written = as_written(source);
  if (source.weights_on_host) program.state.host_weights = std::make_shared<program::HostWeightsWhileModelLoads>();
  write_decoder(program, config, weights, options.device(source.device), setting);
  if (const std::string note = weights.note(); !note.empty() && source.model.profile.empty())
    program.notes.push_back(note);
  return program;
}

}  // namespace memtune::frontend
