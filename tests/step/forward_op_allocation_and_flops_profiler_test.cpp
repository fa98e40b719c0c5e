// Tests what one forward records: bytes of each tensor where it is allocated, saves of autograd and the cost of each
// op.
#include "core/engine/step/forward_op_allocation_and_flops_profiler.h"

#include <doctest/doctest.h>

#include "core/model/ops/autocast.h"
#include "tests/support/training.h"
namespace memtune::step::forward_survey_test {
namespace {

plan::ProgramFacts survey_of(const std::string& forward, int blocks = 1, int width = 8, int rows = 4) {
  const tests::Model model(forward + "\n", blocks, width, {"a", "b"}, rows);
  const auto program =
      tests::lower(model.module(), frontend::LossKind::returned, "", device::torch_device(tests::test_device()));
  auto facts = program::facts(program, program::find_blocks(program, "block*"));
  ForwardOpAllocationAndFlopsProfiler survey(program, facts, device::torch_device(tests::test_device()).type());
  autograd::SavedTensorHooksScope hooks(&survey);
  program::Interpreter(program).run({model.input()}, &survey);
  return facts;
}

const plan::ProgramOpFacts& find(const plan::ProgramFacts& facts, const std::string& name) {
  for (const auto& op : facts.ops)
    if (op.name == name) return op;
  FAIL("no op " << name);
  return facts.ops.at(0);
}

constexpr int64_t kBytes = 4 * 8 * 4;  // rows, width, float

TEST_CASE("output bytes are recorded where the memory is allocated and views have none") {
  const auto facts =
      survey_of("def forward(self, x):\n    return torch.relu(x @ self.a).t().contiguous().t() @ self.b");
  CHECK(find(facts, "aten::matmul").output_bytes == std::vector<int64_t>{kBytes});
  CHECK(find(facts, "aten::relu").output_bytes == std::vector<int64_t>{kBytes});
  CHECK(find(facts, "aten::t").output_bytes == std::vector<int64_t>{0});
  CHECK(find(facts, "aten::contiguous").output_bytes == std::vector<int64_t>{kBytes});
}

TEST_CASE("a tensor counts as saved by any op and through any view") {
  const auto facts = survey_of(
      "def forward(self, x):\n"
      "    y = x @ self.a\n"            // its bytes are not needed: relu saves its result
      "    z = torch.relu(y)\n"         // saved by relu itself, and by the next matmul
      "    w = torch.sigmoid(z) + z\n"  // the sum is saved only through a view
      "    return w.t() @ z");
  CHECK(find(facts, "aten::matmul").output_saved == std::vector<bool>{false});
  CHECK(find(facts, "aten::relu").output_saved == std::vector<bool>{true});
  CHECK(find(facts, "aten::sigmoid").output_saved == std::vector<bool>{true});
  CHECK(find(facts, "aten::add").output_saved == std::vector<bool>{true});
}

TEST_CASE("tensors that an op saves for itself are its private bytes") {
  const auto facts = survey_of("def forward(self, x):\n    return torch.dropout(x @ self.a, 0.5, True) @ self.b");
  CHECK(find(facts, "aten::dropout").private_bytes > 0);  // the mask
  CHECK(find(facts, "aten::matmul").private_bytes == 0);
}

TEST_CASE("matmuls and attention cost their multiply-adds and other ops nothing") {
  const auto facts = survey_of(
      "def forward(self, x):\n"
      "    q = (x @ self.a).unsqueeze(0)\n"
      "    return torch.scaled_dot_product_attention(q, q, q, None, 0.0, False).squeeze(0)");
  CHECK(find(facts, "aten::matmul").flops == 2.0 * 4 * 8 * 8);
  CHECK(find(facts, "aten::scaled_dot_product_attention").flops == 4.0 * 4 * 4 * 8);
  CHECK(find(facts, "aten::unsqueeze").flops == 0);
}

TEST_CASE("a matmul records the dtype of its operands or of autocast and other ops record none") {
  const std::string forward = "def forward(self, x):\n    return torch.relu(x @ self.a)";
  const auto facts = survey_of(forward);
  CHECK(find(facts, "aten::matmul").dtype == "float32");
  CHECK(find(facts, "aten::relu").dtype.empty());
  const c10::DeviceType device = device::torch_device(tests::test_device()).type();
  ops::AutocastScope autocast(device, {true, at::kBFloat16});
  CHECK(find(survey_of(forward), "aten::matmul").dtype == "bfloat16");
}

TEST_CASE("a convolution and a transposed one cost their multiply-adds") {
  const auto facts = survey_of(
      "def forward(self, x):\n"
      "    y = (x @ self.a).unsqueeze(0)\n"                                    // [1, 4, 8]: 4 channels, 8 long
      "    y = torch.conv1d(y, self.b[0:4, 0:4].unsqueeze(2))\n"               // 1 by 1: 4 multiply-adds each
      "    y = torch.conv_transpose1d(y, self.b[0:4, 0:6].view([4, 2, 3]))\n"  // each input element has 2 * 3 products
      "    return y.sum() * x");
  CHECK(find(facts, "aten::conv1d").flops == 2.0 * 4 * 8 * 4);
  CHECK(find(facts, "aten::conv_transpose1d").flops == 2.0 * 4 * 8 * 6);
}

TEST_CASE("a survey needs no more memory than a forward without gradients") {
  auto& device = tests::test_device();
  const tests::Model model("def forward(self, x):\n    return torch.sigmoid(torch.sigmoid(x @ self.a))\n", 6, 64, {"a"},
                           1024);
  const auto program = tests::lower(model.module(), frontend::LossKind::returned, "", device::torch_device(device));
  auto facts = program::facts(program, program::find_blocks(program, "block*"));
  const auto peak_of = [&](auto&& run) {
    device.reset_peak();
    const int64_t before = device.memory().allocated;
    run();
    return device.memory().peak_allocated - before;
  };
  const int64_t inference = peak_of([&] {
    const at::NoGradGuard no_grad;
    program::Interpreter(program).run({model.input()});
  });
  const int64_t surveyed = peak_of([&] {
    ForwardOpAllocationAndFlopsProfiler survey(program, facts, device::torch_device(tests::test_device()).type());
    autograd::SavedTensorHooksScope hooks(&survey);
    program::Interpreter(program).run({model.input()}, &survey);
  });
  CHECK(surveyed <= inference + 4096);
}

}  // namespace
}  // namespace memtune::step::forward_survey_test
