// Autocast inserts cast copies between tensors and the ops that read them. If a plan drops a copy, it is cast again
// from its source without running the op.
#include "core/model/ops/autocast.h"

#include <doctest/doctest.h>

#include "tests/support/training.h"
namespace memtune::tests::conformance_autocast_test {
namespace {

struct Bf16 : ops::AutocastScope {
  Bf16() : AutocastScope(device::torch_device(test_device()).type(), {true, at::kBFloat16}) {}
};

constexpr char kSource[] = R"(
def forward(self, x):
    y = torch.sigmoid(torch.matmul(x, self.a).float())
    return torch.matmul(y, self.b)
)";

plan::Plan plan_for(const plan::ProgramFacts& facts, plan::TensorPlacement copies) {
  plan::Plan plan;
  plan.saved_min_bytes = plan.transfer.min_bytes = 0;
  int matmuls = 0;
  for (size_t i = 0; i < facts.ops.size(); ++i) {
    const auto& op = facts.ops[i];
    const bool second = plan::is_matmul(op.op_class) && matmuls++ % 2 == 1;
    if (op.name != "aten::sigmoid" && !second) continue;
    plan::OneOpActivationPlacements placement{
        static_cast<int>(i), op.region + "/" + op.name, {plan::TensorPlacement::keep}};
    if (second) placement.saved = copies;
    plan.placements.push_back(placement);
  }
  return plan;
}

TEST_CASE("a dropped cast copy is cast again from its source without running the matmul twice") {
  Model model(kSource, 3);
  const auto program =
      tests::lower(model.module(), frontend::LossKind::returned, "", device::torch_device(test_device()));
  const auto facts = program::facts(program, program::find_blocks(program, "block*"));
  const Bf16 autocast;
  const Step plain = model.under("none");
  for (plan::TensorPlacement value :
       {plan::TensorPlacement::keep, plan::TensorPlacement::recompute, plan::TensorPlacement::host}) {
    CAPTURE(plan::to_string(value));
    plan::Plan plan = plan_for(facts, plan::TensorPlacement::recompute);
    for (auto& placement : plan.placements)
      if (placement.saved == plan::TensorPlacement::keep) placement.outputs[0] = value;
    const Step step = model.under(program, facts, plan);
    CHECK(same(step, plain));
    CHECK(step.reruns == (value == plan::TensorPlacement::recompute ? 6 : 3));  // one cast per block, and the sigmoid
    CHECK(step.leased_after == 0);
  }
}

TEST_CASE("a cast copy can be offloaded to CPU memory") {
  Model model(kSource, 3);
  const auto program =
      tests::lower(model.module(), frontend::LossKind::returned, "", device::torch_device(test_device()));
  const auto facts = program::facts(program, program::find_blocks(program, "block*"));
  const Bf16 autocast;
  const Step plain = model.under("none");
  const Step step = model.under(program, facts, plan_for(facts, plan::TensorPlacement::host));
  CHECK(same(step, plain));
  CHECK(step.out_bytes == 3 * 4 * 8 * 2);  // bfloat16
}

}  // namespace
}  // namespace memtune::tests::conformance_autocast_test
