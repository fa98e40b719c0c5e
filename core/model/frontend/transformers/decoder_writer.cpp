#include "core/model/frontend/transformers/decoder_writer.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "core/model/frontend/dtype.h"
#include "core/model/frontend/sentence_embedding.h"
#include "core/model/frontend/transformers/altup.h"
#include "core/model/frontend/transformers/attention.h"
#include "core/model/frontend/transformers/attention_mask.h"
#include "core/model/frontend/transformers/decoder_op_emitter.h"
#include "core/model/frontend/transformers/gated_delta_net.h"
#include "core/model/frontend/transformers/layer_inputs.h"
#include "core/model/frontend/transformers/mlp.h"
#include "core/model/frontend/transformers/older_attention.h"
#include "core/model/frontend/transformers/rotary.h"
#include "core/model/frontend/transformers/short_convolution.h"
#include "core/model/frontend/transformers/state_space.h"

namespace memtune::frontend {
namespace {

using c10::IValue;
using model::OlderDecoderPositionEncoding;

const std::vector<int64_t> kFlat = {-1};

class DecoderWriter {
 public:
  DecoderWriter(program::Program& program, const model::TransformersConfig& config, TransformersWeightProvider& weights,
                at::TensorOptions options, const DecoderLoweringOptions& setting)
      : parts_(program, config, weights, options, setting),
        emit_(parts_.emit()),
        config_(config),
        family_(config.family),
        weights_(weights) {}

  void write() {
    const Value ids = emit_.input("input_ids");
    if (parts_.setting().packed) documents_ = emit_.input("position_ids");
    if (is_flash()) ends_ = emit_.input("cu_seq_lens_q");
    if (parts_.setting().padded) padding_ = emit_.input("attention_mask");
    const Value batch = emit_.op("aten::size", "int", {ids, 0});
    parts_.set_size(batch, emit_.op("aten::size", "int", {ids, 1}));
    const at::Tensor table =
        weights_.make(embedding_path() + ".weight", {config_.vocabulary + image_tokens(), config_.hidden},
                      SyntheticWeightInitialization::noise);
    const Value x = body(ids, table);
    if (parts_.setting().head == ModelOutputHeadKind::embedding) return emit_.answer(embedding_of(x));
    if (!config_.classifier) return emit_.answer(logits(x, table));
    const Value scores = at_last_token(scored(x), ids);
    if (parts_.setting().head == ModelOutputHeadKind::score) return emit_.answer(scores);
    emit_.answer({-1, {}, {answer("loss", loss_of_labels(scores)), answer("logits", scores)}});
  }

 private:
  std::string base(std::string_view name) const { return std::string(family_.modules.base) + "." + std::string(name); }
  // Rows of the embedding that the output layer lacks.
  int64_t image_tokens() const { return family_.image_layers ? 8 : 0; }
  std::string embedding_path() const { return base(family_.modules.embedding); }

  Value body(Value ids, const at::Tensor& table) {
    const ProgramEmitter::InRegion region(emit_, std::string(family_.modules.base), parts_.type("Model"));
    const std::string path = embedding_path();
    Value x = embedding(ids, emit_.parameter(path + ".weight", table), path, config_.hidden);
    if (config_.layer_inputs) layer_inputs_ = write_layer_inputs(parts_, x, embedded_by_layer(ids));
    if (family_.multipliers || family_.scales_embedding) x = parts_.times(x, config_.embedding_multiplier);
    if (!family_.embedding_norm.empty()) x = parts_.norm(x, base(family_.embedding_norm), config_.hidden);
    positions_ = documents_ ? *documents_ : write_positions(parts_);
    if (family_.positions_per_row) positions_ = emit_.op("aten::expand", "", {positions_, parts_.shape({})});
    masks_.emplace(parts_, documents_, padding_);
    if (family_.table == OlderDecoderPositionEncoding::sinusoidal)
      x = parts_.plus(x, write_sinusoids(parts_, base(family_.modules.positions), positions_));
    if (config_.positions > 0 && family_.table == OlderDecoderPositionEncoding::none)
      x = parts_.plus(x, embedded_positions());
    if (family_.table == OlderDecoderPositionEncoding::biases) biases_ = write_biases(parts_);
    if (family_.table == OlderDecoderPositionEncoding::biases_by_mask)
      biases_ = write_biases_by_mask(parts_, padding_ ? *padding_ : mask_of_ones());
    x = parts_.dropped(x, config_.embedding_dropout);
    if (family_.seen_table) emit_.buffer(base("bias"), seen_table());
    for (const model::RotaryConfig& rotary : config_.rotary) turns_.push_back(write_rotary(parts_, rotary, positions_));
    if (config_.altup) x = write_altup_streams(parts_, x);
    for (int64_t i = 0; i < config_.layers; ++i) {
      if (family_.draws_layerdrop) emit_.op("aten::rand", "", {std::vector<int64_t>{}});
      x = layer(x, i);
    }
    if (config_.altup) x = write_altup_mean(parts_, x);
    return parts_.norm(x, base(family_.modules.last_norm), config_.hidden);
  }

  Value embedded_by_layer(Value ids) {
    const std::string path = base("embed_tokens_per_layer");
    const int64_t width = config_.layer_inputs->width;
    const std::vector<int64_t> sizes = {config_.layer_inputs->vocabulary, config_.layers * width};
    return embedding(ids, parts_.parameter(path + ".weight", sizes, SyntheticWeightInitialization::noise), path, width);
  }

  // `scaled_as`: width whose root scales the embedding.
  Value embedding(Value ids, Value table, const std::string& path, int64_t scaled_as) {
    const ProgramEmitter::InRegion region(
        emit_, path, family_.scaled_embedding ? parts_.type("TextScaledWordEmbedding") : "Embedding");
    const Value x = emit_.op("aten::embedding", "", {table, ids, config_.padding.value_or(-1), false, false});
    if (!family_.scaled_embedding) return x;
    const at::Tensor root = at::scalar_tensor(std::sqrt(static_cast<double>(scaled_as)), at::kFloat);
    const Value scale = emit_.buffer(path + ".embed_scale", root.to(parts_.device()));
    return parts_.multiply(x, parts_.cast(scale, parts_.dtype()));
  }

  at::Tensor seen_table() const {
    return at::tril(at::ones({config_.positions, config_.positions}, at::TensorOptions(at::kBool))).to(parts_.device());
  }

  Value embedded_positions() {
    const std::string path = base(family_.modules.positions);
    const int64_t offset = family_.position_offset;
    const Value ids = offset > 0 && !documents_ ? counted_positions() : positions_;
    const ProgramEmitter::InRegion region(emit_, path, "Embedding");
    const Value table = parts_.parameter(path + ".weight", {config_.positions + offset, config_.hidden},
                                         SyntheticWeightInitialization::noise);
    const Value at = offset > 0 ? emit_.op("aten::add", "Scalar", {ids, offset}) : ids;
    return emit_.op("aten::embedding", "", {table, at, -1, false, false});
  }

  // Of the tokens that are no padding, [batch, length].
  Value counted_positions() {
    const Value mask = padding_ ? *padding_ : mask_of_ones();
    const Value counted = emit_.op("aten::cumsum", "", {mask, 1, IValue()});
    const Value from_zero = emit_.op("aten::sub", "Scalar", {parts_.multiply(counted, mask), 1});
    const Value ids = parts_.cast(from_zero, at::kLong);
    return emit_.op("aten::slice", "Tensor", {ids, 1, 0, std::numeric_limits<int64_t>::max(), 1});
  }

  Value mask_of_ones(const IValue& type = IValue()) {
    const Value sizes = emit_.list(c10::ListType::ofInts(), {parts_.batch(), parts_.length()});
    return emit_.op("aten::ones", "", {sizes, type, IValue(), parts_.device(), false});
  }

  Value logits(Value x, const at::Tensor& table) {
    if (config_.state_space) return parts_.cast(head(parts_.cast(x, parts_.dtype()), table), at::kFloat);
    Value y = head(x, table);
    if (family_.multipliers) y = emit_.op("aten::div", "Scalar", {y, config_.logits_divisor});
    if (config_.logit_scale) y = parts_.times(y, *config_.logit_scale);
    if (!config_.logit_cap) return y;
    y = emit_.op("aten::tanh", "", {emit_.op("aten::div", "Scalar", {y, *config_.logit_cap})});
    return parts_.times(y, *config_.logit_cap);
  }

  Value head(Value x, const at::Tensor& table) {
    const ProgramEmitter::InRegion region(emit_, "lm_head", "Linear");
    const std::string name = "lm_head.weight";
    const Value weight = config_.tied ? emit_.parameter(name, table)
                                      : parts_.parameter(name, {config_.vocabulary, config_.hidden},
                                                         SyntheticWeightInitialization::noise);
    if (!config_.head_bias) return emit_.op("aten::linear", "", {x, weight});
    const Value bias = parts_.parameter("lm_head.bias", {config_.vocabulary}, SyntheticWeightInitialization::zeros);
    return emit_.op("aten::linear", "", {x, weight, bias});
  }

  Value embedding_of(Value x) {
    const auto [pooling, normalized] = parts_.setting().after;
    const Value mask = padding_ ? *padding_ : mask_of_ones(at::kLong);
    const Value pool = pooled(emit_, x, mask, parts_.length(), config_.hidden, pooling);
    return normalized ? unit_length(emit_, pool) : pool;
  }

  Value scored(Value x) {
    const ProgramEmitter::InRegion region(emit_, "score", "Linear");
    const at::Tensor weight = weights_.make_or_add("score.weight", {config_.classifier->labels, config_.hidden});
    return emit_.op("aten::linear", "", {x, emit_.parameter("score.weight", weight)});
  }

  // Rows of [batch, length, width]. If the config names no token that fills rows, the mask tells where they end.
  Value at_last_token(Value x, Value ids) {
    const auto counted = [&](Value count, const IValue& type) {
      return emit_.op("aten::arange", "", {count, type, IValue(), parts_.device(), false});
    };
    const Value rows = counted(parts_.batch(), IValue());
    if (!config_.row_padding && !padding_)
      return emit_.op("aten::index", "Tensor", {emit_.op("aten::select", "int", {x, 1, -1}), indices({rows})});
    const Value text = config_.row_padding ? emit_.op("aten::ne", "Scalar", {ids, *config_.row_padding}) : *padding_;
    const Value places = parts_.multiply(counted(parts_.length(), at::kInt), parts_.cast(text, at::kInt));
    return emit_.op("aten::index", "Tensor", {x, indices({rows, emit_.op("aten::argmax", "", {places, -1})})});
  }

  Value indices(const Values& each) { return emit_.list(c10::ListType::create(c10::OptionalType::ofTensor()), each); }

  // ForSequenceClassificationLoss
  Value loss_of_labels(Value scores) {
    const auto [count, regression] = *config_.classifier;
    const Value labels = emit_.input("labels");
    model::InputTensorDescription described{"labels", regression ? name_of(parts_.dtype()) : "int64", {{2, "rows"}}};
    if (regression && count > 1) described.dimensions.push_back({count, ""});
    for (int64_t i = 0; i < count && !regression; ++i) described.sample.push_back(i);
    emit_.describe_input(std::move(described));
    const ProgramEmitter::InRegion region(emit_, "loss", "loss");
    if (!regression) {
      const Value flat = emit_.op("aten::view", "", {scores, std::vector<int64_t>{-1, count}});
      return emit_.op("aten::cross_entropy_loss", "", {flat, emit_.op("aten::view", "", {labels, kFlat})});
    }
    if (count > 1) return emit_.op("aten::mse_loss", "", {scores, labels});
    return emit_.op("aten::mse_loss", "",
                    {emit_.op("aten::squeeze", "", {scores}), emit_.op("aten::squeeze", "", {labels})});
  }

  static program::OutputTree answer(const std::string& name, Value value) {
    return {value.slot, c10::TensorType::get(), {}, name};
  }

  Value layer(Value x, int64_t index) {
    if (!config_.layer_configs.empty()) use_layer(index);
    if (config_.state_space) return state_space_layer(x, index);
    const std::string path = base(family_.modules.layers) + "." + std::to_string(index);
    const ProgramEmitter::InRegion region(emit_, path, parts_.type(family_.modules.layer_class));
    if (config_.altup) return layer_of_streams(x, path, index);
    if (family_.image_layers && config_.image_layers[index]) return image_layer(x, path);
    const Value normed = norm(x, path, family_.modules.before_attention);
    if (config_.parallel && family_.sums_in_place) return summed_in_place(x, normed, path, index);
    const Value y = norm(attention(normed, path, index), path, family_.modules.after_attention);
    if (config_.parallel) return in_parallel(x, normed, y, path, index);
    x = residual(x, y);
    if (family_.mlp_of_rows) return with_mlp_of_rows(x, path, index);
    Value z = mlp(norm(x, path, family_.modules.before_mlp), path, index);
    if (config_.experts && family_.experts.beside_mlp) z = write_experts_beside_mlp(parts_, x, z, path);
    x = residual(x, norm(z, path, family_.modules.after_mlp));
    if (layer_inputs_) x = residual(x, write_layer_input(parts_, x, layer_input(index), path));
    if (family_.scaled_layers) emit_.op("aten::mul_", "Tensor", {x, parts_.stored_factor(path + ".layer_scalar")});
    return x;
  }

  Value layer_of_streams(Value streams, const std::string& path, int64_t index) {
    const Value predictions = write_altup_prediction(parts_, streams, path);
    const Value x = active_stream(parts_, predictions);
    const Value normed = norm(x, path, family_.modules.before_attention);
    const Value laurel = write_laurel(parts_, normed, path);
    const Value attended = norm(attention(normed, path, index), path, family_.modules.after_attention);
    const Value sum = parts_.plus(parts_.plus(x, attended), laurel);
    const Value y = emit_.op("aten::div", "Scalar", {sum, std::sqrt(2.0)});
    const Value z = mlp(norm(y, path, family_.modules.before_mlp), path, index);
    const Value activated = parts_.plus(y, norm(z, path, family_.modules.after_mlp));
    const Value corrected = write_altup_correction(parts_, predictions, activated, path);
    add_layer_input(parts_, corrected, layer_input(index), path);
    return corrected;
  }

  // Text skips a layer that attends to images, whose parameters take memory.
  Value image_layer(Value x, const std::string& path) {
    const auto stored = [&](const char* name, at::IntArrayRef shape,
                            SyntheticWeightInitialization filling = SyntheticWeightInitialization::noise) {
      parts_.parameter(path + "." + name, shape, filling);
    };
    const int64_t hidden = config_.hidden, mlp = config_.mlp, width = config_.head_width;
    const int64_t queries = config_.heads * width, keys = config_.kv_heads * width;
    stored("cross_attn.q_proj.weight", {queries, hidden});
    stored("cross_attn.k_proj.weight", {keys, hidden});
    stored("cross_attn.v_proj.weight", {keys, hidden});
    stored("cross_attn.o_proj.weight", {hidden, queries});
    stored("cross_attn.q_norm.weight", {width}, SyntheticWeightInitialization::ones);
    stored("cross_attn.k_norm.weight", {width}, SyntheticWeightInitialization::ones);
    stored("input_layernorm.weight", {hidden}, SyntheticWeightInitialization::ones);
    stored("cross_attn_attn_gate", {1}, SyntheticWeightInitialization::zeros);
    stored("mlp.gate_proj.weight", {mlp, hidden});
    stored("mlp.up_proj.weight", {mlp, hidden});
    stored("mlp.down_proj.weight", {hidden, mlp});
    stored("post_attention_layernorm.weight", {hidden}, SyntheticWeightInitialization::ones);
    stored("cross_attn_mlp_gate", {1}, SyntheticWeightInitialization::zeros);
    return x;
  }

  Value layer_input(int64_t index) { return emit_.op("aten::select", "int", {*layer_inputs_, 2, index}); }

  Value with_mlp_of_rows(Value x, const std::string& path, int64_t index) {
    const Value rows = emit_.op("aten::reshape", "", {x, std::vector<int64_t>{-1, config_.hidden}});
    const Value y = mlp(norm(rows, path, family_.modules.before_mlp), path, index);
    return emit_.op("aten::view", "", {parts_.plus(rows, y), parts_.shape({config_.hidden})});
  }

  Value in_parallel(Value x, Value normed, Value attended, const std::string& path, int64_t index) {
    const Value y = mlp(family_.shared_norm ? normed : norm(x, path, family_.modules.before_mlp), path, index);
    return family_.residual_last ? parts_.plus(parts_.plus(y, attended), x) : parts_.plus(parts_.plus(x, attended), y);
  }

  Value summed_in_place(Value x, Value normed, const std::string& path, int64_t index) {
    const Value in = family_.shared_norm ? normed : norm(x, path, family_.modules.before_mlp);
    const Value attended = attention(normed, path, index);
    const Value y = mlp(in, path, index);
    emit_.op("aten::add_", "Tensor", {y, attended});
    return parts_.plus(x, parts_.dropped(y, config_.sum_dropout));
  }

  Value norm(Value x, const std::string& path, std::string_view name) {
    return name.empty() ? x : parts_.norm(x, path + "." + std::string(name), config_.hidden);
  }

  Value state_space_layer(Value x, int64_t index) {
    const std::string path = base(family_.modules.layers) + "." + std::to_string(index);
    const ProgramEmitter::InRegion region(emit_, path, parts_.type(family_.modules.layer_class));
    const Value normed = norm(parts_.cast(x, parts_.dtype()), path, family_.modules.before_attention);
    if (config_.state_space->residual_in_float) x = parts_.cast(x, at::kFloat);
    return parts_.plus(x, write_state_space_mixer(parts_, normed, path + ".mixer"));
  }

  // The parts of the layer see its own sizes.
  void use_layer(int64_t index) {
    const model::PerLayerConfigOverrides& layer = config_.layer_configs[index];
    model::TransformersConfig& own = own_config_.emplace(config_);
    own.head_width = layer.head_width;
    own.kv_heads = layer.kv_heads;
    own.mlp = layer.mlp;
    own.sparsity = layer.sparsity;
    own.rotary = {config_.rotary[config_.turned_by[index]]};
    parts_.set_layer(&own);
  }

  Value attention(Value x, const std::string& path, int64_t index) {
    if (config_.convolution && config_.convolution->layers[index]) return write_short_convolution(parts_, x, path);
    if (config_.delta_net && config_.delta_net->layers[index]) return write_gated_delta_net(parts_, x, path);
    const int table = config_.turned_by[index];
    const model::PerLayerConfigOverrides* const layer = own_config_ ? &config_.layer_configs[index] : nullptr;
    return write_attention(parts_, x, path + "." + std::string(family_.modules.attention),
                           {positions_, table < 0 ? std::nullopt : std::optional(turns_[table])},
                           seen(window(index), index), layer, layer ? &keys_[layer->windowed ? 1 : 0] : nullptr);
  }

  bool is_flash() const { return parts_.setting().attention == AttentionImplementation::flash_varlen; }

  AttentionMaskWindowAndBias seen(int64_t window, int64_t layer) {
    if (is_flash()) return {{}, ends_, window, {}, layer};
    return {masks_->of(window), {}, 0, biases_, layer};
  }

  // The layer's window; 0 if the sequence does not reach beyond it.
  int64_t window(int64_t index) const {
    const int64_t window = config_.windows[index], length = parts_.setting().sequence;
    return parts_.setting().masked() || (length > 0 && length >= window) ? window : 0;
  }

  Value mlp(Value x, const std::string& path, int64_t index) {
    const bool experts = config_.experts && config_.experts->layers[index] && !family_.experts.beside_mlp;
    return experts ? write_experts(parts_, x, path) : write_mlp(parts_, x, mlp_path(path), parts_.config().mlp);
  }

  std::string mlp_path(const std::string& layer) const {
    return family_.modules.mlp.empty() ? layer : layer + "." + std::string(family_.modules.mlp);
  }

  Value residual(Value x, Value y) {
    return parts_.plus(x, family_.multipliers ? parts_.times(y, config_.residual_multiplier) : y);
  }

  DecoderOpEmitter parts_;
  ProgramEmitter& emit_;
  const model::TransformersConfig& config_;
  const model::TransformersFamilyConventions& family_;
  TransformersWeightProvider& weights_;
  std::optional<Value> documents_, ends_;  // of a packed row: positions; starts and end of documents
  std::optional<Value> padding_;
  std::optional<Value> biases_;  // of scores
  Value positions_;
  std::optional<Value> layer_inputs_;                    // of all layers
  std::optional<model::TransformersConfig> own_config_;  // of the layer that is being written
  std::array<KeysAndValues, 2> keys_;                    // of layers without and with a window
  std::optional<PerWindowAttentionMaskEmitter> masks_;
  std::vector<std::pair<Value, Value>> turns_;  // cosine and sine of each table
};

}  // namespace

void write_decoder(program::Program& program, const model::TransformersConfig& config,
                   TransformersWeightProvider& weights, at::TensorOptions options,
                   const DecoderLoweringOptions& setting) {
  const auto& family = config.family;
  const std::string_view written = setting.head == ModelOutputHeadKind::embedding ? "Model"
                                   : config.classifier                            ? model::kClassifier
                                                                                  : family.modules.model_class;
  program.regions.push_back({"", std::string(family.class_prefix) + std::string(written), -1});
  DecoderWriter(program, config, weights, options, setting).write();
}

}  // namespace memtune::frontend
