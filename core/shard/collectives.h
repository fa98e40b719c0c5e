// What processes that train one model together do with each other: each holds a part of a tensor, all of one size, in
// the order of the ranks.
//
// All ranks ask for the same, in the same order, from the thread that trains. What is asked for runs beside it, on a
// device behind what has been computed so far; the tensors are the collective's until somebody has waited for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <exception>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/device/device.h"

namespace memtune::shard {

// Another rank did not come to a collective in time.
class RankTimeout : public Error {
 public:
  using Error::Error;
};

// Another rank ended.
class RankLost : public Error {
 public:
  using Error::Error;
};

// Ranks ask for different things. Of one size it is told behind a pass; otherwise a thread of Gloo's throws, which ends
// the process, as one of NCCL's does where a rank does not come: who may set its terminate handler asks which it was.
inline constexpr char kOrdersDiffer[] =
    "the ranks have read parameters in different orders: the model's branches differ by its data, and it cannot be "
    "sharded";
bool tells_of_different_orders(const std::exception& error);
bool tells_of_missing_rank(const std::exception& error);

class Collective {
 public:
  virtual ~Collective() = default;
  // What computes next finds it done; on a device this returns at once. Throws RankTimeout, RankLost.
  virtual void wait() = 0;
  // Of one that was waited for: how long it ran, on a CPU from asking for it on. A device is idle.
  virtual std::chrono::nanoseconds took() const = 0;
};
using CollectivePtr = std::unique_ptr<Collective>;

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // `whole`, as long as all parts, becomes theirs, cast where they are of another dtype. `what` is for the message of
  // an error: "layers.3". `behind`: when the part is there, on a device also behind that, for which compute does not
  // wait; null: it is.
  virtual CollectivePtr all_gather(const at::Tensor& whole, const at::Tensor& part, const std::string& what,
                                   const device::EventPtr& behind = nullptr) = 0;
  // `part` becomes the sum over the ranks of this rank's part of `whole`, whose bytes are lost; in an order that the
  // number of ranks fixes.
  virtual CollectivePtr reduce_scatter(const at::Tensor& part, const at::Tensor& whole, const std::string& what) = 0;

  // In all, that compute stood for what was waited for. A device is idle.
  virtual std::chrono::nanoseconds stood() = 0;
};

struct GroupSettings {
  int rank = 0, size = 1;
  // A file that all of them, and nobody else, reach; there is none yet, or one of this group. Or "tcp://host:port",
  // where rank 0 has a socket that listens.
  std::string rendezvous;
  std::chrono::milliseconds patience{120'000};  // of a collective
  std::string address = {};  // numeric, of this machine, by which the others reach it; "": the loopback device's
  int listening = -1;        // rank 0's socket
  int device = -1;           // this rank's of CUDA, in use already; -1: all tensors are on the CPU
};

// Over Gloo for tensors on the CPU, and over NCCL for those on the device. Waits for all to come.
// RankTimeout when they do not; Error when there is no connection to be had; DeviceError.
std::unique_ptr<Collectives> connect(const GroupSettings& settings);

}  // namespace memtune::shard
