#include "core/engine/step/storage_to_activation_table.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "core/base/text.h"
#include "core/engine/autograd/view_geometry.h"

namespace memtune::step {

using autograd::SavedStorage;
using autograd::SavedStoragePtr;

StorageToActivationTable::StorageToActivationTable(c10::Device device, const std::vector<at::Tensor>& parameters)
    : device_(device) {
  for (const at::Tensor& parameter : parameters) parameters_.insert(storage_of(parameter));
}

void StorageToActivationTable::begin_step() {
  values_.clear();
  all_.clear();
}

bool StorageToActivationTable::covers(const at::Tensor& tensor) const {
  return tensor.defined() && tensor.device() == device_ && autograd::is_plain(tensor) &&
         parameters_.find(storage_of(tensor)) == parameters_.end();
}

SavedStoragePtr StorageToActivationTable::find(Storage storage) const {
  const auto found = values_.find(storage);
  return found == values_.end() ? nullptr : found->second;
}

SavedStoragePtr StorageToActivationTable::find_or_add(const at::Tensor& tensor) {
  SavedStoragePtr& value = values_[storage_of(tensor)];
  if (!value)
    value = std::make_shared<SavedStorage>(tensor.storage(), SavedStorage::Origin{}, plan::TensorPlacement::keep);
  return value;
}

void StorageToActivationTable::add(Storage storage, SavedStoragePtr value) {
  all_.push_back(value);
  values_[storage] = std::move(value);
}

void StorageToActivationTable::overwritten(Storage storage) {
  const auto found = values_.find(storage);
  if (found == values_.end()) return;
  found->second->overwritten();
  values_.erase(found);
}

void StorageToActivationTable::visit_held(const std::function<void(const SavedStorage&, int64_t bytes)>& visit) const {
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

std::vector<DeviceMemoryHeldByOpKind> largest_holders(const StorageToActivationTable& values,
                                                      const plan::ProgramFacts& facts, size_t most) {
  std::map<std::string, int64_t> bytes;
  values.visit_held([&](const SavedStorage& value, int64_t held) {
    const auto& fact = facts.ops[value.key().op];
    bytes[without_numbers(fact.region) + "/" + fact.name] += held;
  });
  std::vector<DeviceMemoryHeldByOpKind> holders;
  for (auto& [name, count] : bytes) holders.push_back({name, count});
  std::sort(holders.begin(), holders.end(),
            [](const DeviceMemoryHeldByOpKind& a, const DeviceMemoryHeldByOpKind& b) { return a.bytes > b.bytes; });
  if (holders.size() > most) holders.resize(most);
  return holders;
}

}  // namespace memtune::step
