#include "tests/frontend/decoder_module.h"

#include <ATen/ATen.h>

#include <map>
#include <regex>

namespace memtune::tests {
namespace {

using torch::jit::Module;

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
const char* const kLoss = "torch.cross_entropy_loss(x[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())";

class Builder {
 public:
  Builder(const DecoderSizes& sizes, const program::ModelParametersAndBuffers& state, Form form)
      : p_(sizes), state_(state), form_(form) {}

  Module decoder(bool loss) {
    Module model = module("Llama");
    model.register_module("emb", weighted("Embedding", "emb", kEmbedding));
    Module layers = module("ModuleList");
    for (int64_t i = 0; i < p_.blocks; ++i)
      layers.register_module(std::to_string(i), block("layers." + std::to_string(i)));
    model.register_module("layers", layers);
    model.register_module("norm", weighted("RMSNorm", "norm", kNorm));
    model.register_module("output", weighted("Linear", "output", kLinear));
    for (const auto& [name, buffer] : state_.buffers) model.register_buffer(name, buffer.clone());
    model.define(forward(loss));
    return model;
  }

 private:
  static Module module(const std::string& type) {
    Module result(type);
    result.register_attribute("training", c10::BoolType::get(), true);
    return result;
  }

  Module weighted(const char* type, const std::string& path, const char* source) {
    Module result = module(type);
    result.register_parameter("weight", weight(path + ".weight"), /*is_buffer=*/false);
    result.define(source);
    return result;
  }

  at::Tensor weight(const std::string& name) const {
    for (const auto& [known, tensor] : state_.parameters)
      if (known == name) return tensor.detach().clone().requires_grad_();
    throw std::out_of_range(name);
  }

  Module attention(const std::string& path) {
    Module result = module("Attention");
    for (const char* part : {"wq", "wk", "wv", "wo"})
      result.register_module(part, weighted("Linear", path + "." + part, kLinear));
    std::string source = kAttention;
    for (const auto& [name, number] : numbers()) {
      if (form_ == Form::scripted) result.register_attribute(name, c10::IntType::get(), number);
      if (form_ == Form::traced)
        source = std::regex_replace(source, std::regex("self\\." + name + "\\b"), std::to_string(number));
    }
    result.define(source);
    return result;
  }

  std::map<std::string, int64_t> numbers() const {
    return {{"heads", p_.heads}, {"kv_heads", p_.kv_heads}, {"width", p_.hidden / p_.heads}};
  }

  Module block(const std::string& path) {
    Module result = module("Block");
    result.register_module("attn", attention(path + ".attn"));
    for (const char* part : {"n1", "n2"}) result.register_module(part, weighted("RMSNorm", path + "." + part, kNorm));
    for (const char* part : {"w1", "w2", "w3"})
      result.register_module(part, weighted("Linear", path + "." + part, kLinear));
    result.define(kBlock);
    return result;
  }

  // Writes one call per block. TorchScript unrolls Python's loop over a module list in the same way.
  std::string forward(bool loss) const {
    std::string source =
        "def forward(self, tokens):\n"
        "    x = self.emb.forward(tokens)\n"
        "    t = tokens.size(1)\n"
        "    cos = self.cos[:t].to(x.dtype)\n"
        "    sin = self.sin[:t].to(x.dtype)\n";
    for (int64_t i = 0; i < p_.blocks; ++i)
      source += "    x = getattr(self.layers, \"" + std::to_string(i) + "\").forward(x, cos, sin)\n";
    source += "    x = self.output.forward(self.norm.forward(x))\n";
    return source + "    return " + (loss ? kLoss : "x") + "\n";
  }

  const DecoderSizes& p_;
  const program::ModelParametersAndBuffers& state_;
  Form form_;
};

}  // namespace

Module decoder_module(const DecoderSizes& sizes, const program::ModelParametersAndBuffers& state, Form form,
                      bool loss) {
  return Builder(sizes, state, form).decoder(loss);
}

}  // namespace memtune::tests
