// Offloads saved tensors one by one, as autograd saves them (OneOpActivationPlacements::saves). Other engines do this
// with saved-tensor hooks: if k ops save a value, it is copied k times, each time only the saved view. Flags in
// core/plan/strategy/plan.h select the tensors that stay and those that share a copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/engine/autograd/saved_storage.h"
#include "core/engine/autograd/view_geometry.h"
#include "core/engine/step/storage_to_activation_table.h"
#include "core/plan/strategy/plan.h"

namespace memtune::step {

class SavedTensorOffloadSelectorAndCompactor {
 public:
  SavedTensorOffloadSelectorAndCompactor(const plan::TransferSettings& settings, c10::Device device,
                                         const std::vector<at::Tensor>& parameters);

  // From now on parameters are gathered and freed: views of them are never offloaded, whatever the flags say.
  void keep_parameter_views() { views_stay_ = true; }

  void begin_step();
  void begin_block() { shared_.clear(); }

  // One saved tensor, packed densely and without the repeats of an expanded one, and the geometry of the packed copy.
  struct Copy {
    autograd::SavedStoragePtr value;  // to be offloaded if it is passing
    at::Storage bytes;                // keeps the bytes alive until then
    autograd::ViewGeometry geometry;
  };
  // Returns nullopt if the tensor stays on the device.
  std::optional<Copy> take(const at::Tensor& tensor, const autograd::SavedStorage::Origin& origin);

 private:
  using Range = std::pair<const void*, at::ScalarType>;  // address and dtype
  // Includes storage and version, because an address may be reused while a copy of the old bytes is alive.
  using View = std::tuple<const c10::StorageImpl*, uint32_t, int64_t, at::ScalarType, std::vector<int64_t>,
                          std::vector<int64_t>>;
  struct Shared {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // keeps its address from being reused
    std::weak_ptr<autograd::SavedStorage> value;
  };

  bool is_kept_parameter(const at::Tensor& tensor) const;
  bool repeats(const at::Tensor& tensor);
  autograd::ViewGeometry packed(const at::Tensor& tensor) const;
  Copy copy(const at::Tensor& tensor, const autograd::SavedStorage::Origin& origin) const;
  Copy share(const at::Tensor& tensor, const autograd::SavedStorage::Origin& origin);

  const plan::TransferSettings settings_;
  const c10::Device device_;
  std::set<const c10::TensorImpl*> parameters_;
  std::set<const c10::StorageImpl*> parameter_storages_;
  bool views_stay_ = false;
  int64_t saves_ = 0;  // saved tensors in this step
  std::map<Range, int64_t>
      known_;  // RepeatedSavedTensorOffloadPolicy::stay: number of the save that may still be in the stash
  std::map<View, Shared> shared_;  // RepeatedSavedTensorOffloadPolicy::share: copies of this block
};

}  // namespace memtune::step
