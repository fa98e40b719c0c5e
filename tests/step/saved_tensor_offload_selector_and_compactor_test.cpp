// Tests which saved tensors of an op are copied on their own, in how many bytes, and how views are restored.
#include "core/engine/step/saved_tensor_offload_selector_and_compactor.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <vector>
namespace memtune::step::saved_tensor_copies_test {
namespace {

using autograd::SavedStorage;
using plan::RepeatedSavedTensorOffloadPolicy;

plan::TransferSettings settings(RepeatedSavedTensorOffloadPolicy repeats, int64_t min_bytes = 1) {
  plan::TransferSettings result;
  result.min_bytes = min_bytes;
  result.compatibility.repeats = repeats;
  result.compatibility.stash_saves = 5;
  return result;
}

SavedTensorOffloadSelectorAndCompactor copies(const plan::TransferSettings& settings,
                                              const std::vector<at::Tensor>& parameters = {}) {
  return {settings, c10::kCPU, parameters};
}

// Offloaded bytes, or 0 if the tensor stays.
int64_t moved(SavedTensorOffloadSelectorAndCompactor& copies, const at::Tensor& tensor) {
  const auto copy = copies.take(tensor, {});
  return copy ? static_cast<int64_t>(copy->bytes.nbytes()) : 0;
}

TEST_CASE("tensors below the minimum size stay and the tensor's bytes count and not its storage's") {
  SavedTensorOffloadSelectorAndCompactor engine = copies(settings(RepeatedSavedTensorOffloadPolicy::move, 1024));
  const at::Tensor large = at::ones({64, 64});
  CHECK(moved(engine, large.slice(0, 0, 4)) == 1024);
  CHECK(moved(engine, large.slice(0, 0, 3)) == 0);
  CHECK(moved(engine, at::ones({255})) == 0);
}

TEST_CASE("a tensor that is saved twice is offloaded twice") {
  SavedTensorOffloadSelectorAndCompactor engine = copies(settings(RepeatedSavedTensorOffloadPolicy::move));
  const at::Tensor tensor = at::ones({256});
  const auto first = engine.take(tensor, {}), second = engine.take(tensor, {});
  REQUIRE((first && second));
  CHECK(first->value != second->value);
}

TEST_CASE("parameters stay and a compatibility flag decides on their views") {
  const at::Tensor weight = at::ones({8, 4});
  SavedTensorOffloadSelectorAndCompactor by_object = copies(
      [] {
        plan::TransferSettings result = settings(RepeatedSavedTensorOffloadPolicy::move);
        result.compatibility.parameter_views = true;
        return result;
      }(),
      {weight});
  CHECK(moved(by_object, weight) == 0);
  CHECK(moved(by_object, weight.t()) == 128);
  SavedTensorOffloadSelectorAndCompactor by_storage =
      copies(settings(RepeatedSavedTensorOffloadPolicy::move), {weight});
  CHECK(moved(by_storage, weight) == 0);
  CHECK(moved(by_storage, weight.t()) == 0);
}

TEST_CASE("every view is restored with its elements from no more bytes than they need") {
  const at::Tensor base = at::arange(48, at::kFloat).view({6, 8});
  for (const bool flat : {false, true}) {
    auto compatibility = settings(RepeatedSavedTensorOffloadPolicy::move);
    compatibility.compatibility.flat_broadcasts = flat;
    SavedTensorOffloadSelectorAndCompactor engine = copies(compatibility);
    for (const at::Tensor& view : {base, base.t(), base.slice(0, 2, 4), base.slice(1, 1, 3), base.slice(1, 1, 3).t(),
                                   base.slice(0, 0, 1).expand({5, 8})}) {
      CAPTURE(view.sizes());
      const auto copy = engine.take(view, {});
      REQUIRE(copy);
      CHECK(at::equal(copy->geometry.view(copy->bytes), view));
      const bool repeats = view.stride(0) == 0;  // the elements are kept once, and repeated again by the strides
      CHECK(static_cast<int64_t>(copy->bytes.nbytes()) == 4 * (!repeats ? view.numel() : flat ? 48 : 8));
      CHECK((copy->geometry.strides[0] == 0) == repeats);
    }
  }
}

TEST_CASE("an expanded part of a tensor is copied once without its gaps") {
  const at::Tensor view =
      at::arange(96, at::kFloat).view({2, 6, 8}).slice(2, 1, 4).select(1, 2).unsqueeze(1).expand({2, 5, 3});
  const auto copy = copies(settings(RepeatedSavedTensorOffloadPolicy::move)).take(view, {});
  REQUIRE(copy);
  CHECK(at::equal(copy->geometry.view(copy->bytes), view));
  CHECK(copy->bytes.nbytes() == 4 * 2 * 3);
  CHECK(copy->geometry.strides[1] == 0);
}

TEST_CASE("bytes of a slice live as long as its copy") {
  at::Tensor base = at::ones({64});
  SavedTensorOffloadSelectorAndCompactor engine = copies(settings(RepeatedSavedTensorOffloadPolicy::move));
  auto copy = engine.take(base.slice(0, 32), {});
  REQUIRE(copy);
  const c10::weak_intrusive_ptr<c10::StorageImpl> storage = base.storage().getWeakStorageImpl();
  base = at::Tensor();
  CHECK_FALSE(storage.expired());
  copy.reset();
  CHECK(storage.expired());
}

TEST_CASE("policy stay keeps a tensor on a repeated save within the stash and on each save after that") {
  SavedTensorOffloadSelectorAndCompactor engine = copies(settings(RepeatedSavedTensorOffloadPolicy::stay));
  const at::Tensor a = at::ones({16}), b = at::ones({16});
  std::vector<at::Tensor> others;  // kept alive: such engines take a reused address for a repeat
  const auto pass = [&](int times) {
    for (int i = 0; i < times; ++i) CHECK(moved(engine, others.emplace_back(at::ones({8}))) > 0);
  };
  CHECK(moved(engine, a) == 64);  // save 1
  pass(3);
  CHECK(moved(engine, a) == 0);  // save 5: still in the stash, and known from now on
  pass(9);
  CHECK(moved(engine, a) == 0);
  CHECK(moved(engine, b) == 64);
  pass(5);
  CHECK(moved(engine, b) == 64);  // the fifth save after it removed it from the stash
  engine.begin_step();
  CHECK(moved(engine, a) == 64);
}

TEST_CASE("policy share copies equal views of a block once and other views separately") {
  SavedTensorOffloadSelectorAndCompactor engine = copies(settings(RepeatedSavedTensorOffloadPolicy::share));
  const at::Tensor square = at::ones({8, 8});
  const auto first = engine.take(square, {});
  const autograd::SavedStorageConsumerReference use(first->value,
                                                    autograd::SavedStorageConsumerReference::ConsumerKind::backward);
  CHECK(engine.take(square.view({8, 8}), {})->value == first->value);
  CHECK(engine.take(square.t(), {})->value != first->value);
  CHECK(engine.take(square.view({64}), {})->value != first->value);
  engine.begin_block();
  CHECK(engine.take(square, {})->value != first->value);
}

TEST_CASE("policy share takes neither a reused address nor an overwritten tensor for a repeat") {
  SavedTensorOffloadSelectorAndCompactor engine = copies(settings(RepeatedSavedTensorOffloadPolicy::share));
  std::vector<float> memory(64);
  const auto here = [&] { return at::from_blob(memory.data(), {8, 4}, {8, 2}); };  // not dense: copied when saved
  const auto first = engine.take(here(), {});
  const autograd::SavedStorageConsumerReference use(first->value,
                                                    autograd::SavedStorageConsumerReference::ConsumerKind::backward);
  const at::Tensor second = here();
  const auto shared = engine.take(second, {});
  CHECK(shared->value != first->value);
  const autograd::SavedStorageConsumerReference other(shared->value,
                                                      autograd::SavedStorageConsumerReference::ConsumerKind::backward);
  CHECK(engine.take(second, {})->value == shared->value);
  second.add_(1);
  CHECK(engine.take(second, {})->value != shared->value);
}

TEST_CASE("views of gathered parameters stay under every compatibility flag") {
  const at::Tensor weight = at::ones({8, 4});
  plan::TransferSettings compatibility = settings(RepeatedSavedTensorOffloadPolicy::move);
  compatibility.compatibility.parameter_views = true;
  SavedTensorOffloadSelectorAndCompactor engine = copies(compatibility, {weight});
  engine.keep_parameter_views();
  CHECK(moved(engine, weight.t()) == 0);
}

}  // namespace
}  // namespace memtune::step::saved_tensor_copies_test
