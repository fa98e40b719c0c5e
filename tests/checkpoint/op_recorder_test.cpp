// The recorder stores all that a recomputation of an op needs: every kind of argument, and a consumer handle for each
// saved tensor that it reads.
#include "core/engine/checkpoint/op_recorder.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <map>

#include "core/engine/checkpoint/recompute_engine.h"
#include "tests/support/training.h"
namespace memtune::checkpoint::op_recorder_test {
namespace {

using Form = RecordedOpArgument::Form;
using autograd::SavedStorage;
using autograd::SavedStorageConsumerReference;

// Every tensor except `parameter` has a saved storage.
struct Recording {
  SavedStorageConsumerReference use(const at::Tensor& tensor) {
    if (tensor.is_same(parameter)) return {};
    auto& value = values[tensor.storage().unsafeGetStorageImpl()];
    if (!value)
      value = std::make_shared<SavedStorage>(tensor.storage(), SavedStorage::Origin{}, plan::TensorPlacement::keep);
    SavedStorageConsumerReference use(value, SavedStorageConsumerReference::ConsumerKind::rerun);
    use->hold(tensor.storage());
    return use;
  }
  RecordedOpPtr record(const program::Stack& inputs) {
    return recorder.record(op, inputs, /*block=*/3, [this](const at::Tensor& tensor) { return use(tensor); });
  }

  at::Tensor parameter = at::ones({4}, at::TensorOptions(device::torch_device(tests::test_device()))).requires_grad_();
  std::map<const c10::StorageImpl*, autograd::SavedStoragePtr> values;
  program::Op op;
  RecomputeEngine recompute{tests::test_device(), /*nested=*/false};
  OpRecorder recorder{recompute, device::torch_device(tests::test_device())};
};

at::Tensor made(float content) {
  return at::full({4}, content, at::TensorOptions(device::torch_device(tests::test_device())));
}

TEST_CASE("every kind of argument is recorded and tensors become views of saved storages") {
  Recording recording;
  const at::Tensor a = made(1), b = made(2), c = made(3);
  c10::List<std::optional<at::Tensor>> optional({std::optional<at::Tensor>(), std::optional<at::Tensor>(c)});
  const auto instance = recording.record(
      {a.view({2, 2}), c10::List<at::Tensor>({a, b}), optional, c10::List<int64_t>({1, 2}), 0.5, c10::IValue()});
  REQUIRE(instance->arguments.size() == 6);
  const Form forms[] = {Form::tensor, Form::list, Form::optional_list, Form::plain, Form::plain, Form::plain};
  const int tensors[] = {1, 2, 2, 0, 0, 0};
  for (size_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    CHECK(instance->arguments[i].form == forms[i]);
    CHECK(instance->arguments[i].tensors == tensors[i]);
  }
  REQUIRE(instance->inputs.size() == 5);
  CHECK(instance->inputs[0].geometry.sizes.size() == 2);
  CHECK_FALSE(instance->inputs[3].use);
  CHECK_FALSE(instance->inputs[3].direct.defined());
  CHECK(instance->inputs[4].use);
  CHECK(instance->arguments[4].value.toDouble() == 0.5);
  CHECK(instance->block == 3);
}

TEST_CASE("a recorded parameter is used directly and keeps requires_grad") {
  Recording recording;
  const auto instance = recording.record({recording.parameter});
  CHECK_FALSE(instance->inputs[0].use);
  CHECK(instance->inputs[0].direct.is_same(recording.parameter));
  CHECK(instance->inputs[0].requires_grad);
}

TEST_CASE("a recorded op consumes its inputs until it has run or is destroyed") {
  Recording recording;
  at::Tensor a = made(1);
  auto instance = recording.record({a, a.view({2, 2})});
  const auto value = recording.values[a.storage().unsafeGetStorageImpl()];
  a.reset();
  CHECK(value->used());
  instance->inputs[0].use.end();
  CHECK(value->on_device());  // the other view still needs it
  instance.reset();
  CHECK_FALSE(value->used());
  CHECK_FALSE(value->on_device());
}

TEST_CASE("a recording that fails leaves no consumer behind") {
  Recording recording;
  const at::Tensor a = made(1), b = made(2);
  const auto fails = [&](const at::Tensor& tensor) {
    if (tensor.is_same(b)) throw std::runtime_error("no room");
    return recording.use(tensor);
  };
  CHECK_THROWS_WITH(recording.recorder.record(recording.op, {a, b}, 0, fails), "no room");
  CHECK_FALSE(recording.values[a.storage().unsafeGetStorageImpl()]->used());
}

TEST_CASE("a recorded cast is recomputed as a cast") {
  Recording recording;
  const at::Tensor source = made(1.5F);
  const at::Tensor cast = source.to(at::kBFloat16);
  const auto instance = recording.recorder.record_cast(source, at::kBFloat16, 3,
                                                       [&](const at::Tensor& tensor) { return recording.use(tensor); });
  const auto value = std::make_shared<SavedStorage>(cast.storage(), SavedStorage::Origin{}, instance);
  const SavedStorageConsumerReference use(value, SavedStorageConsumerReference::ConsumerKind::backward);
  instance->outputs.push_back({value, 0, cast.dtype(), cast.numel()});
  value->overwritten();
  const at::Storage bytes = value->bytes();
  CHECK(at::equal(at::empty({0}, cast.options()).set_(bytes, 0, {4}, {1}), cast));
}

}  // namespace
}  // namespace memtune::checkpoint::op_recorder_test
