#include "core/engine/shard/gather_schedule_read_notifier.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/model/program/tensors.h"

namespace memtune::shard {

using program::Stack;

namespace {

// An embedding saves only its indices, so its backward does not read the table.
bool reads_in_backward(const program::Op& op) { return op.name != "aten::embedding"; }

void add_missing(std::vector<int>& units, const std::vector<int>& more) {
  for (const int unit : more)
    if (std::ranges::count(units, unit) == 0) units.push_back(unit);
}

}  // namespace

struct GatherScheduleReadNotifier::NeededNode final : torch::autograd::FunctionPreHook {
  NeededNode(GatherScheduleReadNotifier& owner, Units units) : owner(owner), units(std::move(units)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    owner.read_by_node(units);
    return gradients;
  }

  GatherScheduleReadNotifier& owner;
  Units units;
};

GatherScheduleReadNotifier::Units GatherScheduleReadNotifier::units_in(const Stack& tensors) const {
  Units units;
  program::for_each_tensor(tensors, [&](const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) return;
    const auto found = unit_of_.find(tensor.storage().unsafeGetStorageImpl());
    if (found != unit_of_.end() && std::ranges::count(units, found->second) == 0) units.push_back(found->second);
  });
  return units;
}

// Writes to gathered memory would be lost when it is freed.
void GatherScheduleReadNotifier::before(const program::Op& op, const Stack& inputs) {
  written_.clear();
  for (size_t i = 0; i < op.writes.size() && i < inputs.size(); ++i) {
    if (!op.writes[i]) continue;
    if (!units_in({inputs[i]}).empty())
      throw UsageError(op.name + (op.source.empty() ? "" : " at " + op.source) +
                       " writes into a parameter: the model cannot be sharded");
    written_.push_back(inputs[i]);
  }
  read_ = units_in(inputs);
  if (watcher_ && !read_.empty()) watcher_->before_read(read_);
  schedule_.read(read_);
  if (watcher_ && !read_.empty()) watcher_->after_read();
}

void GatherScheduleReadNotifier::read_by_node(const Units& units) {
  if (watcher_) watcher_->before_read(units);
  schedule_.read_by_node(units);
  if (watcher_) watcher_->after_read();
}

// Hooks the autograd node of each output, which runs before all other nodes of the op. The node may belong to another
// op whose output this op returns; it then needs that op's units too. A write through a view is recorded at its base's
// node, which the view's own node is not part of.
void GatherScheduleReadNotifier::after(const program::Op& op, const Stack& outputs) {
  const Stack written = std::exchange(written_, {});
  if (read_.empty() || !reads_in_backward(op)) return;
  program::for_each_tensor(outputs, [&](const at::Tensor& tensor) { need_in_backward(tensor); });
  program::for_each_tensor(written, [&](const at::Tensor& tensor) {
    need_in_backward(tensor);
    if (tensor.defined() && tensor.is_view()) need_in_backward(at::Tensor(tensor._base()));
  });
}

// A view of a parameter needs no bytes in backward.
void GatherScheduleReadNotifier::need_in_backward(const at::Tensor& made) {
  if (!made.defined() || !made.grad_fn()) return;
  if (made.has_storage() && unit_of_.count(made.storage().unsafeGetStorageImpl()) > 0) return;
  for (const auto& hook : made.grad_fn()->pre_hooks())
    if (auto* needed = dynamic_cast<NeededNode*>(hook.get())) return add_missing(needed->units, read_);
  made.grad_fn()->add_pre_hook(std::make_unique<NeededNode>(*this, read_));
}

}  // namespace memtune::shard
