// Decides when parameters, gradients and optimizer states that are in host memory are copied, and when the optimizer
// updates them. The unit that is loaded is that of ParameterGatherScheduler, usually a block; the parameters of one
// dtype of a unit form a group, which has a row of bytes for each kind of state. Groups and units are known by number
// only.
//
//   backward   block 2   update 2 | block 1   update 1 | block 0
//   in         moments 2 params 1 | moments 1 params 0 | moments 0
//   out                           | block 2            | block 1
//
// A group is updated as soon as backward has made its gradients. Its moments are loaded when backward begins the unit
// that made them in the last step: usually its own; that of the first block for an embedding, which backward does not
// read, or reads only in the head that shares it. Clipping needs the gradients of all groups first; then
// gradients go to host memory, and a group is updated when the next forward loads it, or by finish_updates(). Gradients
// of earlier micro-batches (gradient accumulation) wait in host memory for the last one.
//
// The last stores of a step run beside the next forward.
#pragma once

#include <cstddef>
#include <vector>

#include "core/plan/schedule/parameter_gather_scheduler.h"

namespace memtune::schedule {

enum class ModelStateKind { parameters, gradients, moments };
inline constexpr ModelStateKind kStateRows[] = {ModelStateKind::parameters, ModelStateKind::gradients,
                                                ModelStateKind::moments};

// Rows of bytes on a device, with copies in host memory. Does nothing for rows that stay on the device.
class ModelStateCopyAndUpdateBackend {
 public:
  virtual ~ModelStateCopyAndUpdateBackend() = default;
  virtual bool offloads(int group) const = 0;  // any of its rows
  // Of this step's earlier micro-batches, or of the last one if its update is pending.
  virtual bool has_gradients(int group) const = 0;

  virtual void load(int group, ModelStateKind row) = 0;  // starts the copy, unless the bytes are there or on their way
  virtual void wait(int group, ModelStateKind row) = 0;  // compute waits for the copy
  virtual void store(int group,
                     ModelStateKind row) = 0;  // starts the copy to host memory, behind the compute work so far
  virtual void free(int group, ModelStateKind row) = 0;  // if a store runs, settle() does
  virtual void settle(int group) = 0;                    // compute waits for its running stores

  // Adds new gradients to the row, which is loaded if it has_gradients(), and frees them.
  virtual void take_gradients(int group) = 0;
  virtual void note_norms(int group) = 0;  // of its gradients, for clipping
  virtual void begin_clipping() = 0;       // the norms of all groups are noted
  virtual void update(int group) = 0;      // all rows are loaded; `pending`: noted norms clip it
};

class ModelStateOffloadScheduler final : ParameterGatherBackend {
 public:
  struct Group {
    int unit = 0;
    size_t parameters = 0;  // that are trained
  };

  // Carried over from one step to the next.
  struct Learned {
    ParameterGatherScheduler::LearnedOrder order;
    std::vector<int> ends;  // by group: the unit that backward was in when it had made its gradients; -1: its own
  };

  // `device` must outlive this. Units are numbered from 0 without gaps.
  ModelStateOffloadScheduler(const std::vector<Group>& groups, ModelStateCopyAndUpdateBackend& device,
                             Learned learned = {});
  ModelStateOffloadScheduler(const ModelStateOffloadScheduler&) = delete;
  ModelStateOffloadScheduler& operator=(const ModelStateOffloadScheduler&) = delete;

  // From now on each step updates. `passes`: its micro-batches.
  void begin_updating(int passes, bool clips);
  ParameterGatherScheduler& units() { return units_; }  // ops report their reads there

  void begin_step();
  void begin_forward();
  void begin_backward();
  void gradient_made(int group);  // of one parameter
  void end_backward();
  void drop();  // frees all rows, also after a step that threw
  void finish_updates();
  bool pending(int group) const { return groups_[group].pending; }
  void set_pending(int group) { groups_[group].pending = true; }  // as an earlier step left it
  Learned learned() const;

 private:
  struct GroupState {
    Group known;
    size_t gradients = 0;  // made by this backward
    bool ended = true;     // this backward has made all gradients that it makes
    bool in_use = false;   // an op reads its unit
    bool pending = false;  // its update waits for the next forward
    int end = -1;          // as Learned::ends
  };
  enum class Pass { none, forward, backward };

  void gather(int unit) override;
  void wait(int unit) override;
  void free(int unit) override;
  void end_gradients(int group);
  void learn_end(GroupState& group) const;
  void load_for_update(int group);
  void update(int group);
  void begin_pass(Pass pass);
  void settle_others(int unit);
  bool is_last_pass() const { return passes_left_ == 0; }

  ModelStateCopyAndUpdateBackend& device_;
  std::vector<GroupState> groups_;
  std::vector<std::vector<int>> groups_of_;  // by unit
  bool updates_ = false, clips_ = false;
  int passes_ = 1, passes_left_ = 1;  // micro-batches of a step; those not begun
  Pass pass_ = Pass::none;
  int entered_ = -1, entered_before_ = -1;  // units whose ops the pass runs, and ran before
  int units_entered_ = 0;                   // in this pass
  ParameterGatherScheduler units_;
};

}  // namespace memtune::schedule
