#include "core/engine/step/activation_storage_table.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "core/base/text.h"
#include "core/engine/autograd/view_geometry.h"

namespace memtune::step {

using autograd::SavedStorage;
using autograd::SavedStoragePtr;

ActivationStorageTable::ActivationStorageTable(c10::Device device, const std::vector<at::Tensor>& parameters)
    : device_(device) {
  for (const at::Tensor& parameter : parameters) parameters_.insert(storage_of(parameter));
}

void ActivationStorageTable::begin_step() {
  values_.clear();
  all_.clear();
}

bool ActivationStorageTable::covers(const at::Tensor& tensor) const {
  return tensor.defined() && tensor.device() == device_ && autograd::is_plain(tensor) &&
         parameters_.find(storage_of(tensor)) == parameters_.end();
}

SavedStoragePtr ActivationStorageTable::find(Storage storage) const {
  const auto found = values_.find(storage);
  return found == values_.end() ? nullptr : found->second;
}

SavedStoragePtr ActivationStorageTable::find_or_add(const at::Tensor& tensor) {
  SavedStoragePtr& value = values_[storage_of(tensor)];
  if (!value)
    value = std::make_shared<SavedStorage>(tensor.storage(), SavedStorage::Origin{}, plan::TensorPlacement::keep);
  return value;
}

void ActivationStorageTable::add(Storage storage, SavedStoragePtr value) {
  all_.push_back(value);
  values_[storage] = std::move(value);
}

void ActivationStorageTable::overwritten(Storage storage) {
  const auto found = values_.find(storage);
  if (found == values_.end()) return;
  found->second->overwritten();
  values_.erase(found);
}

void ActivationStorageTable::visit_held(const std::function<void(const SavedStorage&, int64_t bytes)>& visit) const {
  std::unordered_set<Storage> counted;
  for (const auto& weak : all_) {
    const SavedStoragePtr value = weak.lock();
    if (!value) continue;
    const at::Storage storage = value->on_device();
    if (!storage || !counted.insert(storage.unsafeGetStorageImpl()).second) continue;
    // others come from outside of the step
    if (value->key().op >= 0) visit(*value, static_cast<int64_t>(storage.nbytes()));
  }
}

std::vector<MemoryHeldByOp> largest_holders(const ActivationStorageTable& values, const plan::ProgramFacts& facts,
                                            size_t most) {
  std::map<std::string, int64_t> bytes;
  values.visit_held([&](const SavedStorage& value, int64_t held) {
    const auto& fact = facts.ops[value.key().op];
    bytes[without_numbers(fact.region) + "/" + fact.name] += held;
  });
  std::vector<MemoryHeldByOp> holders;
  for (auto& [name, count] : bytes) holders.push_back({name, count});
  std::sort(holders.begin(), holders.end(),
            [](const MemoryHeldByOp& a, const MemoryHeldByOp& b) { return a.bytes > b.bytes; });
  if (holders.size() > most) holders.resize(most);
  return holders;
}

}  // namespace memtune::step
