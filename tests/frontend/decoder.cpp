#include "tests/frontend/decoder.h"

#include <ATen/ATen.h>

#include <map>

#include "core/model/frontend/program_emitter.h"

namespace memtune::tests {
namespace {

using c10::IValue;
using frontend::ProgramEmitter;
using frontend::Value;
using frontend::Values;

constexpr double kRotaryBase = 500000.0;
constexpr double kWeightDeviation = 0.02;

// Makes the parameters in call order. This order decides which random numbers each one gets.
class Weights {
 public:
  Weights(ProgramEmitter& emit, at::TensorOptions options, int64_t seed)
      : emit_(emit), options_(options), generator_(at::globalContext().defaultGenerator(options.device()).clone()) {
    generator_.set_current_seed(static_cast<uint64_t>(seed));
  }

  void draw(const std::string& module, int64_t out, int64_t in) {
    add(module, at::empty({out, in}, options_).normal_(0, kWeightDeviation, generator_));
  }
  void ones(const std::string& module, int64_t size) { add(module, at::ones({size}, options_)); }
  Value of(const std::string& module) const { return weights_.at(module); }

 private:
  void add(const std::string& module, const at::Tensor& weight) {
    weights_[module] = emit_.parameter(module + ".weight", weight.requires_grad_());
  }

  ProgramEmitter& emit_;
  at::TensorOptions options_;
  at::Generator generator_;
  std::map<std::string, Value> weights_;
};

class Decoder {
 public:
  Decoder(ProgramEmitter& emit, const DecoderSizes& sizes, at::TensorOptions options, int64_t seed)
      : emit_(emit), p_(sizes), width_(sizes.hidden / sizes.heads), options_(options), weights_(emit, options, seed) {}

  void write() {
    make_weights();
    const at::Tensor angle = rotary_angles(p_.sequence);
    const Value all_cos = emit_.buffer("cos", angle.cos().to(options_.dtype()));
    const Value all_sin = emit_.buffer("sin", angle.sin().to(options_.dtype()));
    const Value tokens = emit_.input("tokens");
    Value x = embedding(tokens);
    const Value t = emit_.op("aten::size", "int", {tokens, 1});
    cos_ = first(all_cos, t);
    sin_ = first(all_sin, t);
    for (int64_t i = 0; i < p_.blocks; ++i) x = block("layers." + std::to_string(i), x);
    emit_.answer(linear("output", norm("norm", x)));
  }

 private:
  void make_weights() {
    weights_.draw("emb", p_.vocabulary, p_.hidden);
    for (int64_t i = 0; i < p_.blocks; ++i) make_block_weights("layers." + std::to_string(i) + ".");
    weights_.ones("norm", p_.hidden);
    weights_.draw("output", p_.vocabulary, p_.hidden);
  }

  void make_block_weights(const std::string& path) {
    weights_.draw(path + "attn.wq", p_.heads * width_, p_.hidden);
    weights_.draw(path + "attn.wk", p_.kv_heads * width_, p_.hidden);
    weights_.draw(path + "attn.wv", p_.kv_heads * width_, p_.hidden);
    weights_.draw(path + "attn.wo", p_.hidden, p_.heads * width_);
    weights_.ones(path + "n1", p_.hidden);
    weights_.ones(path + "n2", p_.hidden);
    weights_.draw(path + "w1", p_.mlp, p_.hidden);
    weights_.draw(path + "w2", p_.hidden, p_.mlp);
    weights_.draw(path + "w3", p_.mlp, p_.hidden);
  }

  // Computed in float32 for every dtype of the model: the angles of late positions need that precision.
  at::Tensor rotary_angles(int64_t sequence) const {
    auto in_float = options_.dtype(at::kFloat);
    at::Tensor frequency = 1.0 / at::pow(kRotaryBase, at::arange(0, width_, 2, in_float) / static_cast<double>(width_));
    at::Tensor angle = at::outer(at::arange(sequence, in_float), frequency);
    return at::cat({angle, angle}, -1);
  }

  Value first(Value table, Value count) {
    const Value rows = emit_.op("aten::slice", "Tensor", {table, 0, IValue(), count, 1});
    return emit_.op("aten::to", "dtype", {rows, c10::typeMetaToScalarType(options_.dtype())});
  }

  Value embedding(Value tokens) {
    const ProgramEmitter::InRegion region(emit_, "emb", "Embedding");
    return emit_.op("aten::embedding", "", {weights_.of("emb"), tokens});
  }

  Value linear(const std::string& path, Value x) {
    const ProgramEmitter::InRegion region(emit_, path, "Linear");
    return emit_.op("aten::linear", "", {x, weights_.of(path)});
  }

  Value norm(const std::string& path, Value x) {
    const ProgramEmitter::InRegion region(emit_, path, "RMSNorm");
    const Value shape = emit_.list(c10::ListType::ofInts(), {emit_.op("aten::size", "int", {x, -1})});
    return emit_.op("aten::rms_norm", "", {x, shape, weights_.of(path), 1e-5});
  }

  Value block(const std::string& path, Value x) {
    const ProgramEmitter::InRegion region(emit_, path, "Block");
    const Value attended = attention(path + ".attn", norm(path + ".n1", x));
    x = add(x, attended);
    const Value y = norm(path + ".n2", x);
    const Value gate = emit_.op("aten::silu", "", {linear(path + ".w1", y)});
    return add(x, linear(path + ".w2", multiply(gate, linear(path + ".w3", y))));
  }

  Value attention(const std::string& path, Value x) {
    const ProgramEmitter::InRegion region(emit_, path, "Attention");
    const Value b = emit_.op("aten::size", "int", {x, 0}), t = emit_.op("aten::size", "int", {x, 1});
    const auto heads = [&](const std::string& name, int64_t count) {
      const Value shape = emit_.list(c10::ListType::ofInts(), {b, t, emit_.constant(count), emit_.constant(width_)});
      return transpose(emit_.op("aten::view", "", {linear(path + name, x), shape}));
    };
    Value q = heads(".wq", p_.heads), k = heads(".wk", p_.kv_heads), v = heads(".wv", p_.kv_heads);
    q = rotate(q);
    k = repeat(rotate(k));
    v = repeat(v);
    const Value o = emit_.op("aten::scaled_dot_product_attention", "", {q, k, v, IValue(), 0.0, true});
    const Value shape = emit_.list(c10::ListType::ofInts(), {b, t, emit_.constant(p_.heads * width_)});
    return linear(path + ".wo", emit_.op("aten::reshape", "", {transpose(o), shape}));
  }

  Value rotate(Value x) {
    const Values halves = emit_.unpack_list(emit_.op("aten::chunk", "", {x, 2, -1}), 2);
    const Value straight = multiply(x, cos_);
    const Value swapped = emit_.list(c10::ListType::ofTensors(), {emit_.op("aten::neg", "", {halves[1]}), halves[0]});
    return add(straight, multiply(emit_.op("aten::cat", "", {swapped, -1}), sin_));
  }

  Value repeat(Value x) { return emit_.op("aten::repeat_interleave", "self_int", {x, p_.heads / p_.kv_heads, 1}); }
  Value transpose(Value x) { return emit_.op("aten::transpose", "int", {x, 1, 2}); }
  Value add(Value x, Value y) { return emit_.op("aten::add", "Tensor", {x, y}); }
  Value multiply(Value x, Value y) { return emit_.op("aten::mul", "Tensor", {x, y}); }

  ProgramEmitter& emit_;
  const DecoderSizes& p_;
  int64_t width_;
  at::TensorOptions options_;
  Weights weights_;
  Value cos_, sin_;
};

}  // namespace

program::Program build_decoder(const DecoderSizes& sizes, at::ScalarType dtype, c10::Device device, int64_t seed) {
  program::Program program;
  program.kind = "written";
  program.regions.push_back({"", "Llama", -1});
  ProgramEmitter emit(program);
  Decoder(emit, sizes, at::TensorOptions(dtype).device(device), seed).write();
  return program;
}

}  // namespace memtune::tests
