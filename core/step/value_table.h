// The values of a training step, by the storage that they live in.
//
// The forward holds them; from its end on only those who use one do. Storages of parameters have none: they stay where
// they are. Thread: the one that trains.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/flat_hash_map.h>

#include <functional>
#include <string>
#include <vector>

#include "core/autograd/saved_value.h"
#include "core/config/program_facts.h"

namespace memtune::step {

class ValueTable {
 public:
  using Storage = const c10::StorageImpl*;
  static Storage storage_of(const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

  ValueTable(c10::Device device, const std::vector<at::Tensor>& parameters);

  void begin_step();
  void end_forward() { values_.clear(); }

  // Whether the tensor is bytes on the device, but no parameter's: what has a value, or gets one.
  bool covers(const at::Tensor& tensor) const;
  // Null: none.
  autograd::ValuePtr find(Storage storage) const;
  // The value of a tensor that comes from outside of the step stays.
  autograd::ValuePtr find_or_add(const at::Tensor& tensor);
  // The storage's value from now on.
  void add(Storage storage, autograd::ValuePtr value);
  bool has(Storage storage) const { return values_.find(storage) != values_.end(); }
  // An op has written into the storage: what it held is gone.
  void overwritten(Storage storage);

  // Calls with every value of this step that holds device memory now, and how much; each storage once.
  void visit_held(const std::function<void(const autograd::SavedValue&, int64_t bytes)>& visit) const;

 private:
  c10::Device device_;
  ska::flat_hash_set<Storage> parameters_;
  ska::flat_hash_map<Storage, autograd::ValuePtr> values_;  // of this forward
  std::vector<std::weak_ptr<autograd::SavedValue>> all_;    // of this step
};

struct Holder {
  std::string name;  // "layers.*.w1/aten::linear": the same op of all blocks
  int64_t bytes = 0;
};
// Who holds most device memory now.
std::vector<Holder> largest_holders(const ValueTable& values, const config::ProgramFacts& facts, size_t most);

}  // namespace memtune::step
