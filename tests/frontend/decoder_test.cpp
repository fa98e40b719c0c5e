// The decoder of the suites stands in for models from Python. It must have the module tree, the class names and the
// mathematics of a scripted Llama.
#include "tests/frontend/decoder.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <algorithm>

#include "core/model/frontend/loss.h"
#include "core/model/program/blocks.h"
#include "core/model/program/interpreter.h"
#include "tests/support/rounding.h"
namespace memtune::frontend::decoder_test {
namespace {

using tests::build_decoder;

const c10::Device kCpu(c10::kCPU);

tests::DecoderSizes small() {
  tests::DecoderSizes profile;
  profile.vocabulary = 11;
  profile.hidden = 8;
  profile.blocks = 2;
  profile.heads = 2;
  profile.kv_heads = 1;
  profile.mlp = 12;
  profile.sequence = 6;
  return profile;
}

at::Tensor parameter(const program::Program& decoder, const std::string& name) {
  for (const auto& found : decoder.state.parameters)
    if (found.first == name) return found.second;
  FAIL("no parameter " << name);
  return {};
}

TEST_CASE("the decoder has the parameters of the Python model") {
  auto decoder = build_decoder(small(), at::kFloat, kCpu, 1);
  std::vector<std::string> names;
  int64_t elements = 0;
  for (const auto& [name, tensor] : decoder.state.parameters) {
    names.push_back(name);
    elements += tensor.numel();
    CHECK(tensor.requires_grad());
  }
  CHECK(names.size() == 1 + 2 * 9 + 2);
  for (const char* name : {"emb.weight", "layers.0.attn.wq.weight", "layers.1.attn.wo.weight", "layers.1.n2.weight",
                           "layers.0.w3.weight", "norm.weight", "output.weight"})
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  // Embedding and head: 2 * 11 * 8. Norm: 8. Each block: 2 * 64 + 2 * 32 attention, 2 * 8 norms, 3 * 96 MLP.
  CHECK(elements == 176 + 8 + 2 * (192 + 16 + 288));
}

TEST_CASE("the decoder's repeated class Block is found automatically") {
  const auto program = with_loss(build_decoder(small(), at::kFloat, kCpu, 1), LossKind::next_token, "tokens");
  auto blocks = program::find_blocks(program, "");
  REQUIRE(blocks.size() == 2);
  CHECK(program.regions[blocks[0]].path == "layers.0");
  CHECK(program.regions[blocks[1]].type == "Block");
}

TEST_CASE("the decoder's weights depend only on the seed and have standard deviation 0.02") {
  at::manual_seed(5);
  at::Tensor before = at::rand({1});
  at::manual_seed(5);
  auto decoder = build_decoder(small(), at::kFloat, kCpu, 3);
  CHECK(at::equal(at::rand({1}), before));  // the default generator is unchanged
  auto again = build_decoder(small(), at::kFloat, kCpu, 3), other = build_decoder(small(), at::kFloat, kCpu, 4);
  at::Tensor weight = parameter(decoder, "output.weight");
  CHECK(at::equal(weight, parameter(again, "output.weight")));
  CHECK_FALSE(at::equal(weight, parameter(other, "output.weight")));
  CHECK(weight.std().item<double>() == doctest::Approx(0.02).epsilon(0.3));
  CHECK(parameter(decoder, "norm.weight").eq(1).all().item<bool>());
}

TEST_CASE("the decoder's weights and tables have the requested dtype") {
  auto decoder = build_decoder(small(), at::kBFloat16, kCpu, 1);
  for (const auto& [name, tensor] : decoder.state.parameters) CHECK((tensor.scalar_type() == at::kBFloat16));
  for (const auto& [name, tensor] : decoder.state.buffers) CHECK((tensor.scalar_type() == at::kBFloat16));
}

at::Tensor rotate(const at::Tensor& x) {  // [batch, heads, t, 4]: position p rotates by p and by p / 500000^(2/4)
  at::Tensor angle =
      at::arange(x.size(2)).to(at::kFloat).unsqueeze(1) * at::tensor({1.0, 0.0014142135623730951}).to(at::kFloat);
  auto parts = x.chunk(2, -1);
  return at::cat({parts[0] * angle.cos() - parts[1] * angle.sin(), parts[1] * angle.cos() + parts[0] * angle.sin()},
                 -1);
}

at::Tensor norm(const at::Tensor& x, const at::Tensor& weight) {
  return x * (x.pow(2).mean(-1, true) + 1e-5).rsqrt() * weight;
}

TEST_CASE("the decoder's output equals the formula of a Llama within rounding") {
  auto profile = small();
  profile.blocks = 1;
  auto decoder = build_decoder(profile, at::kFloat, kCpu, 1);
  auto w = [&](const std::string& name) { return parameter(decoder, name + ".weight"); };
  at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : decoder.state.parameters)
    if (tensor.dim() == 2) tensor.mul_(20);  // attention is then neither uniform nor on a single position
  at::Tensor tokens = at::arange(10).view({2, 5});

  at::Tensor x = w("emb").index({tokens});
  at::Tensor y = norm(x, w("layers.0.n1"));
  auto heads = [&](const char* name, int64_t count) {
    return at::linear(y, w(std::string("layers.0.attn.") + name)).view({2, 5, count, 4}).transpose(1, 2);
  };
  auto repeated = [](const at::Tensor& t) { return t.index({at::Tensor(), at::tensor({0, 0})}); };
  at::Tensor q = rotate(heads("wq", 2)), k = repeated(rotate(heads("wk", 1))), v = repeated(heads("wv", 1));
  at::Tensor scores = q.matmul(k.transpose(2, 3)) / 2;
  scores = scores.masked_fill(at::ones({5, 5}).triu(1).to(at::kBool), -INFINITY);
  at::Tensor o = scores.softmax(-1).matmul(v).transpose(1, 2).reshape({2, 5, 8});
  x = x + at::linear(o, w("layers.0.attn.wo"));
  y = norm(x, w("layers.0.n2"));
  x = x + at::linear(at::silu(at::linear(y, w("layers.0.w1"))) * at::linear(y, w("layers.0.w3")), w("layers.0.w2"));
  at::Tensor expected = at::linear(norm(x, w("norm")), w("output"));

  const auto program = with_loss(decoder, LossKind::none, "");
  CHECK(tests::half_of_digits_equal(program::Interpreter(program).run({tokens}).toTensor(), expected));
}

}  // namespace
}  // namespace memtune::frontend::decoder_test
