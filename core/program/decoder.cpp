#include "core/program/decoder.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace memtune::program {
namespace {

using torch::jit::Module;

constexpr double kRotaryBase = 500000.0;
constexpr double kWeightDeviation = 0.02;

const char* const kEmbedding = R"(
def forward(self, tokens):
    return torch.embedding(self.weight, tokens)
)";
const char* const kLinear = R"(
def forward(self, x):
    return torch.linear(x, self.weight)
)";
const char* const kNorm = R"(
def forward(self, x):
    return torch.rms_norm(x, [x.size(-1)], self.weight, 1e-5)
)";
const char* const kAttention = R"(
def forward(self, x, cos, sin):
    b = x.size(0)
    t = x.size(1)
    q = self.wq.forward(x).view([b, t, self.heads, self.width]).transpose(1, 2)
    k = self.wk.forward(x).view([b, t, self.kv_heads, self.width]).transpose(1, 2)
    v = self.wv.forward(x).view([b, t, self.kv_heads, self.width]).transpose(1, 2)
    q1, q2 = q.chunk(2, -1)
    q = q * cos + torch.cat([-q2, q1], -1) * sin
    k1, k2 = k.chunk(2, -1)
    k = k * cos + torch.cat([-k2, k1], -1) * sin
    k = k.repeat_interleave(self.heads // self.kv_heads, 1)
    v = v.repeat_interleave(self.heads // self.kv_heads, 1)
    o = torch.scaled_dot_product_attention(q, k, v, None, 0.0, True)
    return self.wo.forward(o.transpose(1, 2).reshape([b, t, self.heads * self.width]))
)";
const char* const kBlock = R"(
def forward(self, x, cos, sin):
    x = x + self.attn.forward(self.n1.forward(x), cos, sin)
    y = self.n2.forward(x)
    return x + self.w2.forward(torch.silu(self.w1.forward(y)) * self.w3.forward(y))
)";

class Builder {
 public:
  Builder(const config::DecoderProfile& profile, at::ScalarType dtype, c10::Device device, int64_t seed)
      : p_(profile),
        options_(at::TensorOptions(dtype).device(device)),
        generator_(at::globalContext().defaultGenerator(device).clone()) {
    generator_.set_current_seed(static_cast<uint64_t>(seed));
  }

  Module decoder(int64_t sequence) {
    Module model = module("Llama");
    model.register_module("emb", weighted("Embedding", normal({p_.vocabulary, p_.hidden}), kEmbedding));
    model.register_module("layers", layers());
    model.register_module("norm", norm());
    model.register_module("output", linear(p_.hidden, p_.vocabulary));
    add_rotary_tables(model, std::max(p_.sequence, sequence));
    model.define(forward());
    return model;
  }

 private:
  static Module module(const std::string& type) {
    Module result(type);
    result.register_attribute("training", c10::BoolType::get(), true);
    return result;
  }

  at::Tensor normal(at::IntArrayRef shape) {
    return at::empty(shape, options_).normal_(0, kWeightDeviation, generator_);
  }

  static Module weighted(const char* type, const at::Tensor& weight, const char* source) {
    Module result = module(type);
    result.register_parameter("weight", weight.requires_grad_(), /*is_buffer=*/false);
    result.define(source);
    return result;
  }

  Module linear(int64_t in, int64_t out) { return weighted("Linear", normal({out, in}), kLinear); }
  Module norm() { return weighted("RMSNorm", at::ones({p_.hidden}, options_), kNorm); }

  Module attention() {
    Module result = module("Attention");
    int64_t width = p_.hidden / p_.heads;
    result.register_attribute("heads", c10::IntType::get(), p_.heads);
    result.register_attribute("kv_heads", c10::IntType::get(), p_.kv_heads);
    result.register_attribute("width", c10::IntType::get(), width);
    result.register_module("wq", linear(p_.hidden, p_.heads * width));
    result.register_module("wk", linear(p_.hidden, p_.kv_heads * width));
    result.register_module("wv", linear(p_.hidden, p_.kv_heads * width));
    result.register_module("wo", linear(p_.heads * width, p_.hidden));
    result.define(kAttention);
    return result;
  }

  Module block() {
    Module result = module("Block");
    result.register_module("attn", attention());
    result.register_module("n1", norm());
    result.register_module("n2", norm());
    result.register_module("w1", linear(p_.hidden, p_.mlp));
    result.register_module("w2", linear(p_.mlp, p_.hidden));
    result.register_module("w3", linear(p_.hidden, p_.mlp));
    result.define(kBlock);
    return result;
  }

  Module layers() {
    Module result = module("ModuleList");
    for (int64_t i = 0; i < p_.blocks; ++i) result.register_module(std::to_string(i), block());
    return result;
  }

  // In float32, whatever the model's dtype: the angles of late positions need it.
  void add_rotary_tables(Module& model, int64_t sequence) const {
    auto in_float = options_.dtype(at::kFloat);
    int64_t width = p_.hidden / p_.heads;
    at::Tensor frequency = 1.0 / at::pow(kRotaryBase, at::arange(0, width, 2, in_float) / static_cast<double>(width));
    at::Tensor angle = at::outer(at::arange(sequence, in_float), frequency);
    angle = at::cat({angle, angle}, -1);
    model.register_buffer("cos", angle.cos().to(options_.dtype()));
    model.register_buffer("sin", angle.sin().to(options_.dtype()));
  }

  // The blocks one after the other: TorchScript unrolls Python's loop over a module list the same way.
  std::string forward() const {
    std::string source =
        "def forward(self, tokens):\n"
        "    x = self.emb.forward(tokens)\n"
        "    t = tokens.size(1)\n"
        "    cos = self.cos[:t].to(x.dtype)\n"
        "    sin = self.sin[:t].to(x.dtype)\n";
    for (int64_t i = 0; i < p_.blocks; ++i)
      source += "    x = getattr(self.layers, \"" + std::to_string(i) + "\").forward(x, cos, sin)\n";
    return source + "    return self.output.forward(self.norm.forward(x))\n";
  }

  const config::DecoderProfile& p_;
  at::TensorOptions options_;
  at::Generator generator_;
};

}  // namespace

Module build_decoder(const config::DecoderProfile& profile, at::ScalarType dtype, c10::Device device, int64_t seed,
                     int64_t sequence) {
  return Builder(profile, dtype, device, seed).decoder(sequence);
}

}  // namespace memtune::program
