// Compares the table of ops with LibTorch's list of operators. The table must not contradict LibTorch about ops that
// are random, multiply or are elementwise.
#include "core/model/program/op_schema.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <set>
namespace memtune::program::op_schema_test {
namespace {

using plan::OpClass;

struct Known {
  Op op;
  const c10::FunctionSchema* schema;
};

// All operators of LibTorch except backward formulas, which no forward calls.
std::vector<Known> all_ops() {
  std::vector<Known> ops;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    auto handle = c10::Dispatcher::singleton().findSchema(name);
    if (!handle || name.name.find("backward") != std::string::npos) continue;
    Known known{{}, &handle->schema()};
    known.op.name = name.name;
    known.op.handle = handle;
    describe(known.op, *known.schema);
    ops.push_back(std::move(known));
  }
  return ops;
}

bool is_cheap(const Op& op) { return plan::is_cheap(op.op_class) && !op.random; }

TEST_CASE("ops that draw random numbers are random and those in the table by the table alone") {
  int random = 0;
  for (const auto& [op, schema] : all_ops()) {
    CAPTURE(op.name);
    const bool tagged = op.handle->hasTag(at::Tag::nondeterministic_seeded);
    if (tagged && op.name.starts_with("aten::")) CHECK(plan::traits_of(op.name).random);
    if (tagged) ++random;
    const auto& arguments = schema->arguments();
    const bool takes_generator = std::any_of(arguments.begin(), arguments.end(), [](const c10::Argument& argument) {
      return argument.type()->str().find("Generator") != std::string::npos;
    });
    if (takes_generator && op.name.starts_with("aten::") && !schema->returns().empty()) CHECK(op.random);
  }
  CHECK(random > 100);  // with overloads
}

TEST_CASE("no op that multiplies matrices is cheap") {
  // Matches parts of names between underscores.
  const std::regex multiplies(
      ".*[:_](mm|bmm|addmm|addbmm|baddbmm|mv|addmv|matmul|linear|conv|convolution|conv_?[a-z]*[123]d|attention|einsum|"
      "bilinear|dot|tensordot|inner|lstm|gru|rnn|cdist|pdist|cholesky|qr|svd|eig[a-z]*|inv|inverse|pinverse|solve|lu|"
      "fft|"
      "det|slogdet|matrix|multi)([_0-9].*)?");
  // Memory-bound ops whose names only look like multiplications.
  const std::set<std::string> passes = {
      "aten::fft_fftfreq",       "aten::fft_rfftfreq",        "aten::fft_fftshift",
      "aten::fft_ifftshift",     "aten::upsample_bilinear2d", "aten::_upsample_bilinear2d_aa",
      "aten::upsample_linear1d", "aten::__upsample_bilinear", "aten::dot",
      "aten::matrix_H",          "aten::multi_margin_loss",   "aten::slice_inverse"};
  int seen = 0;
  for (const auto& [op, schema] : all_ops()) {
    if (!std::regex_match(op.name, multiplies) || passes.contains(op.name) || op.op_class == OpClass::host) continue;
    CAPTURE(op.name);
    CHECK_FALSE(is_cheap(op));
    ++seen;
  }
  CHECK(seen > 150);
}

TEST_CASE("every op that LibTorch tags as pointwise is cheap") {
  int seen = 0;
  for (const auto& [op, schema] : all_ops()) {
    if (!op.handle->hasTag(at::Tag::pointwise)) continue;
    CAPTURE(op.name);
    CHECK(plan::is_cheap(op.op_class));
    ++seen;
  }
  CHECK(seen > 300);
}

TEST_CASE("running statistics that a schema does not mark as written are known") {
  int seen = 0;
  for (const auto& [op, schema] : all_ops()) {
    if (!op.name.starts_with("aten::")) continue;
    for (size_t i = 0; i < schema->arguments().size(); ++i) {
      const c10::Argument& argument = schema->arguments()[i];
      const bool running = argument.name() == "running_mean" || argument.name() == "running_var";
      if (!running || argument.alias_info()) continue;
      const auto& known = op.updates_statistics;
      const bool told = std::find(known.begin(), known.end(), static_cast<int>(i)) != known.end();
      CAPTURE(op.name);
      // These ops only read the statistics.
      const bool reads = op.name.find("no_training") != std::string::npos ||
                         op.name.find("no_update") != std::string::npos || op.name.ends_with("_functional");
      CHECK(told != reads);
      ++seen;
    }
  }
  CHECK(seen >= 10);
}

TEST_CASE("an op on plain numbers has class host even if tensors have an op of its name") {
  Op op;
  op.name = "aten::mul";
  describe(op, c10::FunctionSchema("aten::mul", "int", {c10::Argument("a", c10::IntType::get())},
                                   {c10::Argument("", c10::IntType::get())}));
  CHECK(op.op_class == OpClass::host);
}

TEST_CASE("an op without a table entry and without a tag is unknown") {
  Op op;
  op.name = "aten::_made_up";
  describe(op, c10::FunctionSchema("aten::_made_up", "", {}, {c10::Argument("", c10::TensorType::get())}));
  CHECK(op.op_class == OpClass::unknown);
  describe(op, c10::FunctionSchema("aten::_made_up", "", {}, {c10::Argument("", c10::IntType::get())}));
  CHECK(op.op_class == OpClass::host);
  const c10::AliasInfo written(/*is_write=*/true, {"alias::a"}, {});
  const c10::Argument argument("x", c10::TensorType::get(), std::nullopt, std::nullopt, false, written);
  describe(op, c10::FunctionSchema("aten::_made_up", "", {argument}, {}));
  CHECK(op.op_class == OpClass::unknown);
}

}  // namespace
}  // namespace memtune::program::op_schema_test
