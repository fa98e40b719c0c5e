// Tensors that leave one by one as autograd saves them (OpPlacement::saves), as hooks of other programs see them: k ops
// that save a value move it k times, each what it saved of it. Which stay, and which share a copy, are habits of
// config/plan.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/autograd/geometry.h"
#include "core/autograd/saved_value.h"
#include "core/config/plan.h"
#include "core/step/value_table.h"

namespace memtune::step {

class SavedCopies {
 public:
  SavedCopies(const config::TransferSettings& settings, c10::Device device, const std::vector<at::Tensor>& parameters);

  // Parameters' bytes come and go from now on: views of them stay, whatever the habit.
  void keep_parameter_views() { views_stay_ = true; }

  void begin_step();
  void begin_block() { shared_.clear(); }

  // The bytes of one saved tensor, packed densely, and how they are viewed as the tensor again.
  struct Copy {
    autograd::ValuePtr value;  // to be sent, where it is passing
    at::Storage bytes;         // alive until then
    autograd::Geometry geometry;
  };
  // Nothing: the tensor stays.
  std::optional<Copy> take(const at::Tensor& tensor, const autograd::SavedValue::Origin& origin);

 private:
  using Range = std::pair<const void*, at::ScalarType>;  // by where it begins
  // By storage and version, since addresses come again while a copy of what was there is alive.
  using View = std::tuple<const c10::StorageImpl*, uint32_t, int64_t, at::ScalarType, std::vector<int64_t>,
                          std::vector<int64_t>>;
  struct Shared {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // holds its address
    std::weak_ptr<autograd::SavedValue> value;
  };

  bool is_kept_parameter(const at::Tensor& tensor) const;
  bool repeats(const at::Tensor& tensor);
  autograd::Geometry packed(const at::Tensor& tensor) const;
  Copy copy(const at::Tensor& tensor, const autograd::SavedValue::Origin& origin) const;
  Copy share(const at::Tensor& tensor, const autograd::SavedValue::Origin& origin);

  const config::TransferSettings settings_;
  const c10::Device device_;
  std::set<const c10::TensorImpl*> parameters_;
  std::set<const c10::StorageImpl*> parameter_storages_;
  bool views_stay_ = false;
  int64_t saves_ = 0;               // in this step
  std::map<Range, int64_t> known_;  // Repeats::stay: the save that may still be in the stash
  std::map<View, Shared> shared_;   // Repeats::share: of this block
};

}  // namespace memtune::step
