// Tells the schedule which units an op reads: in the forward, in its backward, and when it is recomputed. Hooks
// autograd nodes; their hooks must not run after this object's end. Thread: the training thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/flat_hash_map.h>

#include <memory>
#include <vector>

#include "core/engine/shard/collectives.h"
#include "core/model/program/program.h"
#include "core/plan/schedule/parameter_gather_scheduler.h"

namespace memtune::shard {

// Observes which units a step reads. Thread: the training thread.
class UnitGatherObserver {
 public:
  virtual ~UnitGatherObserver() = default;
  // Called around gathering the units that a forward op or backward node is about to read.
  virtual void before_read(const std::vector<int>& units) = 0;
  virtual void after_read() = 0;
  virtual void gathered(int unit,
                        std::vector<PendingCollectivePtr> by) = 0;  // `by`: its collectives, already waited for
};

class GatherScheduleReadNotifier {
 public:
  // `schedule` must outlive this object.
  explicit GatherScheduleReadNotifier(schedule::ParameterGatherScheduler& schedule) : schedule_(schedule) {}

  // The unit's gathered parameters live in the storage.
  void add_unit(const c10::StorageImpl* storage, int unit) { unit_of_[storage] = unit; }
  void set_watcher(UnitGatherObserver* watcher) { watcher_ = watcher; }  // null: none
  UnitGatherObserver* watcher() const { return watcher_; }

  // Around each op. Throws UsageError if the op writes into a parameter.
  void before(const program::Op& op, const program::Stack& inputs);
  void after(const program::Op& op, const program::Stack& outputs);
  void before_recomputation(const program::Stack& inputs) { schedule_.read_again(units_in(inputs)); }

 private:
  struct NeededNode;  // hook of each node whose backward may read a unit
  using Units = schedule::ParameterGatherScheduler::Units;

  Units units_in(const program::Stack& tensors) const;
  void need_in_backward(const at::Tensor& made);
  void read_by_node(const Units& units);

  schedule::ParameterGatherScheduler& schedule_;
  UnitGatherObserver* watcher_ = nullptr;
  ska::flat_hash_map<const c10::StorageImpl*, int> unit_of_;
  Units read_;              // by the running op
  program::Stack written_;  // by the running op
};

}  // namespace memtune::shard
