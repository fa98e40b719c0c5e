// A program's parameters, sharded over ranks. schedule::ParameterGatherScheduler decides when a unit (usually a block)
// is gathered and freed. The gradients of a unit are reduced as soon as backward has made all of them, while backward
// continues.
//
// The pieces receive the mean gradient over the ranks. A parameter that this rank's step did not use counts as a
// gradient of zeros. All ranks must read parameters in the same order. Models with data-dependent branches may not, so
// each pass checks this at its end.
//
// One reduction runs at a time, as in fully_shard of PyTorch 2.11.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/shard/collectives.h"
#include "core/engine/shard/flat_parameter.h"
#include "core/engine/shard/gather_schedule_read_notifier.h"
#include "core/engine/shard/pinned_tensor_allocator_and_copier.h"
#include "core/engine/shard/reshard_dtype_and_offload_options.h"
#include "core/model/program/op_and_phase_parameter_residency_hooks.h"
#include "core/plan/facts/program_facts.h"
#include "core/plan/schedule/parameter_gather_scheduler.h"

namespace memtune::shard {

using schedule::ReshardPolicy;

class ShardedParameters final : public program::OpAndPhaseParameterResidencyHooks, schedule::ParameterGatherBackend {
 public:
  // Keeps this rank's shards of the parameters and frees the rest. `program` and `collectives` must outlive this.
  // Report every read of a parameter. Throws UsageError if the model cannot be sharded.
  ShardedParameters(const program::Program& program, const plan::ProgramFacts& facts, Collectives& collectives,
                    const ReshardDtypeAndOffloadOptions& settings = {});
  ~ShardedParameters() override;
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  // The tensors that the optimizer updates, with the dtype and memory of the settings.
  const program::NamedTensors& pieces() const { return pieces_; }
  // The pieces and their offsets in the parameters. Valid while this lives.
  program::LocalParameterShards shards() const {
    program::LocalParameterShards shards{collectives_.rank(), collectives_.size(), {}};
    for (const Flat& flat : flats_)
      for (size_t i = 0; i < flat.parameter->pieces().size(); ++i) {
        const auto& [name, piece] = flat.parameter->pieces()[i];
        shards.pieces.push_back({name, piece, flat.parameter->piece_begin(i)});
      }
    return shards;
  }

  // Totals.
  struct Counters {
    int64_t gathers = 0, gathered_bytes = 0;  // bytes of whole units
    int64_t reduces = 0, reduced_bytes = 0;
  };
  const Counters& counters() const { return counters_; }
  struct UnitSize {
    std::string name;
    int64_t bytes = 0;  // gathered
  };
  std::vector<UnitSize> unit_sizes() const;
  void set_watcher(UnitGatherObserver* watcher) { reads_->set_watcher(watcher); }  // null: none
  // Returns the gradient norm over all ranks. `here`: norm of this rank's pieces, undefined if it has no gradients. All
  // ranks must call.
  at::Tensor global_norm(const at::Tensor& here);
  // True if any rank passes true. All ranks must call, between steps.
  bool any_rank(bool here);
  int64_t gathered_now_bytes() const;  // of the units gathered now
  int64_t device_shard_bytes() const;  // of the parameters' shards on the device
  // Gradients of the shards on the device, the one being reduced included; some may be undefined.
  std::vector<at::Tensor> device_gradients() const;
  int64_t host_bytes() const { return host_ ? host_->bytes() : 0; }  // of shards and gradients kept there

  void before(const program::Op& op, const program::Stack& inputs) override { reads_->before(op, inputs); }
  void after(const program::Op& op, const program::Stack& outputs) override { reads_->after(op, outputs); }
  void before_rerun(const program::Stack& inputs) override { reads_->before_recomputation(inputs); }
  void begin_step() override;
  void begin_forward() override;
  void begin_backward() override;
  void end_backward() override;
  void drop() override;

 private:
  struct Gradients;  // hook of each parameter
  struct Flat {
    std::unique_ptr<FlatParameter> parameter;
    PendingCollectivePtr gather;  // running, or null
    at::Tensor device_copy;       // device copy of a host shard that the gather reads
    // Host memory for the gradients of such a shard: those of the pieces, and those of a later micro-batch to be added.
    std::array<at::Tensor, 2> on_host;
    bool adds = false;     // the second is being copied
    size_t gradients = 0;  // made by this backward
    bool reduced = false;  // by this backward
  };
  struct GatheredUnit {
    std::string name;
    std::vector<size_t> flats;
  };
  struct Reduction {
    size_t flat = 0;
    at::Tensor part, whole;
    PendingCollectivePtr collective;
  };

  void gather(int unit) override;
  void wait(int unit) override;
  void free(int unit) override;
  void add_unit(const std::string& name, const program::NamedTensors& parameters);
  void drop_gradients();
  void on_gradient(size_t flat);
  void reduce(size_t flat);
  void finish_reduction();
  void copy_part_to_host(Flat& flat, const at::Tensor& part);
  void add_copied_gradients();
  void note_order(char kind, size_t flat);
  at::Tensor gather_from_ranks(int64_t number, const std::string& what);
  void check_order();

  Collectives& collectives_;
  const ReshardDtypeAndOffloadOptions settings_;
  std::optional<PinnedTensorAllocatorAndCopier> host_;
  std::vector<Flat> flats_;
  std::vector<GatheredUnit> units_;
  program::NamedTensors pieces_;
  std::optional<schedule::ParameterGatherScheduler> schedule_;
  std::optional<GatherScheduleReadNotifier> reads_;
  Reduction reduction_;     // running, or empty
  int64_t order_hash_ = 0;  // of all collectives so far
  Counters counters_;
};

}  // namespace memtune::shard
