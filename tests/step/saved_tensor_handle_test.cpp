// Tests what a saved tensor unpacks to, and that its consumer handle ends with it in every state, unpacked or not.
#include "core/engine/step/saved_tensor_handle.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <torch/csrc/autograd/function_hook.h>

#include <memory>

namespace memtune::step::saved_tensor_handle_test {
namespace {

using autograd::SavedStorage;
using autograd::SavedStorageConsumerReference;

struct Unpacker final : SavedTensorHandle::Unpacker {
  at::Tensor unpack(SavedTensorHandle& saved) override { return saved.tensor(); }
  void release_began(const SavedTensorHandle& saved) noexcept override {
    ++(saved.stays() ? ended_as_is : ended_values);
  }
  void release_ended() noexcept override { left = watched.use_count(); }
  int ended_as_is = 0, ended_values = 0;
  c10::weak_intrusive_ptr<c10::StorageImpl> watched = at::Storage().getWeakStorageImpl();
  size_t left = 1;  // owners of the watched storage after the release
};

// Lives as long as the node that it is added to. Nodes have another kind of pointer since LibTorch 2.13.
struct LifetimeHook final : torch::autograd::FunctionPreHook {
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    return gradients;
  }
  std::shared_ptr<int> token = std::make_shared<int>();
};

autograd::SavedStoragePtr value_of(const at::Tensor& tensor) {
  return std::make_shared<SavedStorage>(tensor.storage(), SavedStorage::Origin{5, 1, 2}, plan::TensorPlacement::keep);
}

TEST_CASE("an unattached saved tensor unpacks to the same view of the same bytes without history") {
  Unpacker unpacker;
  const at::Tensor leaf = at::ones({3, 4}).requires_grad_();
  const at::Tensor saved = leaf.mul(2).t().narrow(0, 1, 2);
  SavedTensorHandle ticket(unpacker, saved, /*block=*/0, /*number=*/0);
  const at::Tensor back = ticket.unpack();
  CHECK(ticket.stays());
  CHECK(ticket.key().op == -1);
  CHECK_FALSE(back.requires_grad());
  CHECK(back.const_data_ptr() == saved.const_data_ptr());
  CHECK(back.strides() == saved.strides());
}

TEST_CASE("recomputed bytes belong to the unpacked tensor, and others stay until the ticket ends") {
  for (const auto place : {plan::TensorPlacement::recompute, plan::TensorPlacement::keep}) {
    Unpacker unpacker;
    const at::Tensor tensor = at::ones({3, 4});
    const auto value = std::make_shared<SavedStorage>(tensor.storage(), SavedStorage::Origin{5, 1, 2}, place);
    value->hold(tensor.storage());
    SavedTensorHandle first(unpacker, tensor, 2, 0), last(unpacker, tensor, 2, 1);
    for (SavedTensorHandle* ticket : {&first, &last})
      ticket->attach(SavedStorageConsumerReference(value, SavedStorageConsumerReference::ConsumerKind::backward));
    CHECK(first.unpack().equal(tensor));
    first.release_recomputed();
    CHECK(value->state() == SavedStorage::State::held);
    CHECK(last.unpack().equal(tensor));
    last.release_recomputed();
    CHECK((value->state() == SavedStorage::State::held) == (place == plan::TensorPlacement::keep));
  }
}

TEST_CASE("a tensor that is not plain bytes unpacks unchanged") {
  Unpacker unpacker;
  const at::Tensor sparse = at::ones({3, 4}).to_sparse();
  SavedTensorHandle ticket(unpacker, sparse, 0, 0);
  CHECK(at::equal(ticket.unpack().to_dense(), at::ones({3, 4})));
}

TEST_CASE("a saved tensor does not hold the autograd node that made it") {
  Unpacker unpacker;
  at::Tensor made = at::ones({4}).requires_grad_().mul(2);
  const SavedTensorHandle plain(unpacker, made, 0, 0);
  auto hook = std::make_unique<LifetimeHook>();
  const std::weak_ptr<int> node = hook->token;
  made.grad_fn()->add_pre_hook(std::move(hook));
  CHECK_FALSE(node.expired());
  made.reset();
  CHECK(node.expired());
}

TEST_CASE("an attached saved tensor consumes its storage until it dies and unpacks to a view of it") {
  Unpacker unpacker;
  at::Tensor tensor = at::arange(12, at::kFloat).view({3, 4});
  const auto value = value_of(tensor);
  {
    SavedTensorHandle ticket(unpacker, tensor.t(), 2, 0);
    ticket.attach(SavedStorageConsumerReference(value, SavedStorageConsumerReference::ConsumerKind::backward));
    CHECK(value->used());
    CHECK_FALSE(ticket.stays());
    CHECK(ticket.key() == trace::ActivationOpOutputKey{5, 1, 48});
    value->hold(tensor.storage());
    const at::Tensor expected = tensor.t().clone();
    tensor.reset();
    CHECK(at::equal(ticket.unpack(), expected));
    CHECK(unpacker.ended_values == 0);
  }
  CHECK(unpacker.ended_values == 1);
  CHECK_FALSE(value->used());
  CHECK_FALSE(value->on_device());
}

TEST_CASE("a saved tensor that dies unattached reports its release") {
  Unpacker unpacker;
  { const SavedTensorHandle ticket(unpacker, at::ones({4}), 0, 0); }
  CHECK(unpacker.ended_as_is == 1);
}

TEST_CASE("the bytes of a saved tensor are freed when it reports the end of its release") {
  Unpacker unpacker;
  at::Tensor tensor = at::ones({4});
  unpacker.watched = tensor.storage().getWeakStorageImpl();
  {
    const SavedTensorHandle ticket(unpacker, tensor, 0, 0);
    tensor.reset();
    CHECK(unpacker.watched.use_count() == 1);
  }
  CHECK(unpacker.left == 0);
}

TEST_CASE("a write after the save is refused with autograd's message") {
  Unpacker unpacker;
  at::Tensor tensor = at::ones({4});
  const SavedTensorHandle ticket(unpacker, tensor, 0, 0);
  ticket.check_version();
  tensor.view({2, 2}).add_(1);
  CHECK_THROWS_WITH_AS(ticket.check_version(), doctest::Contains("modified by an inplace operation"), c10::Error);
}

}  // namespace
}  // namespace memtune::step::saved_tensor_handle_test
