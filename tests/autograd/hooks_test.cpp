// LibTorch's hooks are process-wide, but memtune uses them in scopes. Outside a scope and inside a pause, autograd must
// behave as without memtune.
#include "core/engine/autograd/hooks.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
namespace memtune::autograd::hooks_test {
namespace {

// Keeps each packed tensor and counts.
struct Keeper final : SavedTensorPacker {
  struct Kept final : PackedSavedTensor {
    Kept(Keeper& keeper, at::Tensor tensor) : keeper(keeper), tensor(std::move(tensor)) { ++keeper.alive; }
    ~Kept() override { --keeper.alive; }
    at::Tensor unpack() override {
      ++keeper.unpacked;
      return tensor;
    }
    Keeper& keeper;
    at::Tensor tensor;
  };
  std::unique_ptr<PackedSavedTensor> pack(const at::Tensor& tensor) override {
    ++packed;
    return std::make_unique<Kept>(*this, tensor.detach());
  }
  int packed = 0, unpacked = 0, alive = 0;
};

at::Tensor leaf() { return at::arange(1, 7, at::kFloat).view({2, 3}).requires_grad_(); }

TEST_CASE("saved tensors go through the packer only inside a scope") {
  Keeper keeper;
  at::Tensor x = leaf();
  at::sigmoid(x).sum().backward();
  CHECK(keeper.packed == 0);
  at::Tensor plain = x.grad().clone();
  x.mutable_grad().reset();
  {
    SavedTensorHooksScope hooks(&keeper);
    at::sigmoid(x).sum().backward();
  }
  CHECK(keeper.packed == 1);
  CHECK(keeper.unpacked == 1);
  CHECK(at::equal(x.grad(), plain));
  at::sigmoid(x).sum();
  CHECK(keeper.packed == 1);
}

TEST_CASE("the innermost scope decides and a pause means no hooks") {
  Keeper outer, inner;
  at::Tensor x = leaf();
  SavedTensorHooksScope first(&outer);
  {
    SavedTensorHooksScope second(&inner);
    at::sigmoid(x);
    SavedTensorHooksPause pause;
    at::sigmoid(x);
  }
  CHECK(outer.packed == 0);
  CHECK(inner.packed == 1);
  at::sigmoid(x);
  CHECK(outer.packed == 1);
}

TEST_CASE("a packed tensor dies with the graph and is unpacked once per backward") {
  Keeper keeper;
  at::Tensor x = leaf();
  {
    SavedTensorHooksScope hooks(&keeper);
    at::sigmoid(x);  // never unpacked
  }
  CHECK(keeper.alive == 0);
  at::Tensor y;
  {
    SavedTensorHooksScope hooks(&keeper);
    y = at::sigmoid(x).sum();
  }
  CHECK(keeper.alive == 1);
  y.backward({}, /*keep_graph=*/true);
  y.backward();
  CHECK(keeper.unpacked == 2);
  y.reset();
  CHECK(keeper.alive == 0);
}

TEST_CASE("an exception of a packer reaches the caller and autograd works afterwards") {
  struct Refuses final : SavedTensorPacker {
    std::unique_ptr<PackedSavedTensor> pack(const at::Tensor&) override { throw std::runtime_error("no room"); }
  } refuses;
  at::Tensor x = leaf();
  {
    SavedTensorHooksScope hooks(&refuses);
    CHECK_THROWS_WITH(at::sigmoid(x), doctest::Contains("no room"));
  }
  at::sigmoid(x).sum().backward();
  CHECK(x.grad().defined());
}

}  // namespace
}  // namespace memtune::autograd::hooks_test
