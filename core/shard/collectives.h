// What processes that train one model together do with each other: each holds a part of a tensor, all of one size, in
// the order of the ranks.
//
// All ranks ask for the same, in the same order, from the thread that trains. What is asked for runs beside it; the
// tensors are the collective's until somebody has waited for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <exception>
#include <memory>
#include <string>

#include "core/base/error.h"

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
// the process: who may set its terminate handler asks whether it was that.
inline constexpr char kOrdersDiffer[] =
    "the ranks have read parameters in different orders: the model's branches differ by its data, and it cannot be "
    "sharded";
bool tells_of_different_orders(const std::exception& error);

class Collective {
 public:
  virtual ~Collective() = default;
  // What computes next finds it done. Throws RankTimeout, RankLost.
  virtual void wait() = 0;
  // Of one that was waited for: from asking for it until it was done.
  virtual std::chrono::nanoseconds took() const = 0;
};
using CollectivePtr = std::unique_ptr<Collective>;

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // `whole`, as long as all parts, becomes theirs. `what` is for the message of an error: "layers.3".
  virtual CollectivePtr all_gather(const at::Tensor& whole, const at::Tensor& part, const std::string& what) = 0;
  // `part` becomes the sum over the ranks of this rank's part of `whole`, whose bytes are lost; in an order that the
  // number of ranks fixes.
  virtual CollectivePtr reduce_scatter(const at::Tensor& part, const at::Tensor& whole, const std::string& what) = 0;
};

struct GroupSettings {
  int rank = 0, size = 1;
  // A file that all of them, and nobody else, reach; there is none yet, or one of this group. Or "tcp://host:port",
  // where rank 0 has a socket that listens.
  std::string rendezvous;
  std::chrono::milliseconds patience{120'000};  // of a collective
  std::string address = {};  // numeric, of this machine, by which the others reach it; "": the loopback device's
  int listening = -1;        // rank 0's socket
};

// Over Gloo, for tensors on the CPU. Waits for all to come.
// RankTimeout when they do not; Error when there is no connection to be had.
std::unique_ptr<Collectives> connect_by_gloo(const GroupSettings& settings);

}  // namespace memtune::shard
