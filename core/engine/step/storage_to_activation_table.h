// The values of a training step, by storage.
//
// The forward keeps all of them alive; after it, only consumers do. Storages of parameters have no value and stay where
// they are. Thread: the training thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/flat_hash_map.h>

#include <functional>
#include <string>
#include <vector>

#include "core/engine/autograd/saved_storage.h"
#include "core/plan/facts/program_facts.h"

namespace memtune::step {

class StorageToActivationTable {
 public:
  using Storage = const c10::StorageImpl*;
  static Storage storage_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

  StorageToActivationTable(c10::Device device, const std::vector<at::Tensor>& parameters);

  void begin_step();
  void end_forward() { values_.clear(); }

  // True if the tensor is bytes on the device and not a parameter. Such a tensor has a value or can get one.
  bool covers(const at::Tensor& tensor) const;
  // Null if there is none.
  autograd::SavedStoragePtr find(Storage storage) const;
  // A tensor from outside of the step gets a new value, which stays on the device.
  autograd::SavedStoragePtr find_or_add(const at::Tensor& tensor);
  // Replaces the storage's current value.
  void add(Storage storage, autograd::SavedStoragePtr value);
  bool has(Storage storage) const { return values_.find(storage) != values_.end(); }
  // An op wrote to the storage: its current value is invalidated and removed.
  void overwritten(Storage storage);

  // Visits each value of this step that holds device memory now, with the bytes of its storage. Each storage counts
  // once.
  void visit_held(const std::function<void(const autograd::SavedStorage&, int64_t bytes)>& visit) const;

 private:
  c10::Device device_;
  ska::flat_hash_set<Storage> parameters_;
  ska::flat_hash_map<Storage, autograd::SavedStoragePtr> values_;  // of this forward
  std::vector<std::weak_ptr<autograd::SavedStorage>> all_;         // of this step
};

struct DeviceMemoryHeldByOpKind {
  std::string name;  // "layers.*.w1/aten::linear": the same op of all blocks
  int64_t bytes = 0;
};
// Op kinds that hold most device memory now, largest first, at most `most`.
std::vector<DeviceMemoryHeldByOpKind> largest_holders(const StorageToActivationTable& values,
                                                      const plan::ProgramFacts& facts, size_t most);

}  // namespace memtune::step
