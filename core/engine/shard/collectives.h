// Collectives between the ranks that train one model. Each rank holds one part of a tensor; all parts have the same
// size and are ordered by rank.
//
// All ranks must issue the same collectives in the same order, from the training thread. A collective runs
// concurrently, on a device after the compute work queued so far. Do not touch its tensors until it was waited for.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <exception>
#include <memory>
#include <string>

#include "core/base/device/device.h"
#include "core/base/error.h"

namespace memtune::shard {

// Another rank did not join a collective in time.
class RankTimeoutError : public Error {
 public:
  using Error::Error;
};

// Another rank ended.
class RankLostError : public Error {
 public:
  using Error::Error;
};

// The ranks issued different collectives. If their sizes match, this error is thrown after the pass. Otherwise a thread
// of Gloo throws, which ends the process. NCCL's watchdog ends it too if a rank is missing. A terminate handler can use
// the two functions to find the cause.
inline constexpr char kOrdersDiffer[] =
    "the ranks have read parameters in different orders: the model's branches differ by its data, and it cannot be "
    "sharded";
bool is_order_mismatch(const std::exception& error);
bool is_missing_rank(const std::exception& error);

class PendingCollective {
 public:
  virtual ~PendingCollective() = default;
  // Later compute work finds it done; on a device this returns at once. Throws RankTimeoutError, RankLostError.
  virtual void wait() = 0;
  // Duration of a collective that was waited for; on a CPU it is counted from the request. Call when the device is
  // idle.
  virtual std::chrono::nanoseconds took() const = 0;
};
using PendingCollectivePtr = std::unique_ptr<PendingCollective>;

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Fills `whole` with each rank's part, cast to its dtype. `what` names it in error messages: "layers.3".
  // `behind`: event after which `part` is ready; compute does not wait for it. Null: `part` is ready.
  virtual PendingCollectivePtr all_gather(const at::Tensor& whole, const at::Tensor& part, const std::string& what,
                                          const device::EventPtr& behind = nullptr) = 0;
  // Sums `whole` over the ranks and stores this rank's part of the sum in `part`. Overwrites `whole`. The order of
  // summation depends only on the number of ranks.
  virtual PendingCollectivePtr reduce_scatter(const at::Tensor& part, const at::Tensor& whole,
                                              const std::string& what) = 0;

  // Total time that compute waited for collectives. Call when the device is idle.
  virtual std::chrono::nanoseconds exposed_time() = 0;
};

struct ProcessGroupSettings {
  int rank = 0, size = 1;
  // A file that all ranks of the group, and only they, can access; it is new or belongs to this group. Or
  // "tcp://host:port", where rank 0 has a listening socket.
  std::string rendezvous;
  std::chrono::milliseconds timeout{120'000};  // timeout of a collective
  std::string address = {};                    // numeric address by which others reach this machine; "": loopback
  int listening = -1;                          // rank 0's listening socket
  int device = -1;  // this rank's CUDA device, already initialized; -1: all tensors are on the CPU
};

// Uses Gloo for CPU tensors and NCCL for device tensors. Waits until all ranks have joined. Throws RankTimeoutError if
// they do not, Error if no connection can be made, and DeviceError.
std::unique_ptr<Collectives> connect(const ProcessGroupSettings& settings);

}  // namespace memtune::shard
