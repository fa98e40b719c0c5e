// The offload of one activation to host or disk and its reload, with its memory and events. ActivationOffloadEngine
// drives it. A transfer can be destroyed in any state: no copy then touches freed memory.
#pragma once

#include "core/base/device/device.h"
#include "core/engine/autograd/saved_storage.h"
#include "core/plan/schedule/activation_offload_and_reload_state.h"

namespace memtune::offload {

class ActivationOffloadEngine;

class OffloadRoundTrip final : public autograd::OffloadedStorageHandle,
                               public schedule::ActivationOffloadAndReloadState {
 public:
  // `op`: the op that saves the value.
  OffloadRoundTrip(ActivationOffloadEngine& offload, const autograd::SavedStorage& value, at::Storage source, int op)
      : ActivationOffloadAndReloadState(value.size_bytes(), value.place() == plan::TensorPlacement::disk, op),
        offload_(offload),
        key_(value.key()),
        source_(std::move(source)) {}
  ~OffloadRoundTrip() override;
  OffloadRoundTrip(const OffloadRoundTrip&) = delete;
  OffloadRoundTrip& operator=(const OffloadRoundTrip&) = delete;

  at::Storage reload() override;
  void before_overwrite() override;

 private:
  friend class ActivationOffloadEngine;

  ActivationOffloadEngine& offload_;
  const trace::ActivationOpOutputKey key_;
  at::Storage source_;  // held while gathered and stashed
  at::Storage target_;  // held while reloading
  device::EventPtr out_done_, in_done_;
};

}  // namespace memtune::offload
