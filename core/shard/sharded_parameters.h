// A program's parameters, sharded over ranks: a unit (a block's) is gathered and freed as gather::UnitSchedule says. A
// unit's gradients are reduced as soon as backward has made all of them, while it goes on.
//
// The mean over the ranks of each rank's gradient is left on the pieces. A parameter that this rank's step did not use
// counts as one with a gradient of zeros. All ranks have to read parameters in the same order, which a model whose
// branches differ by its data may not: each pass ends with a look whether they did.
//
// As fully_shard of PyTorch 2.11 has it, one reduction at a time.
#pragma once

#include <c10/util/flat_hash_map.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/program_facts.h"
#include "core/gather/unit_schedule.h"
#include "core/program/parameter_source.h"
#include "core/shard/collectives.h"
#include "core/shard/flat_parameter.h"
#include "core/shard/host_rows.h"
#include "core/shard/shard_settings.h"

namespace memtune::shard {

using gather::Reshard;

// Told of what a step reads of them. Thread: the one that trains.
class UnitWatcher {
 public:
  virtual ~UnitWatcher() = default;
  // Around what brings the units about that an op of the forward, or a node of backward, is about to read.
  virtual void before_read(const std::vector<int>& units) = 0;
  virtual void after_read() = 0;
  virtual void gathered(int unit, std::vector<CollectivePtr> by) = 0;  // which have been waited for
};

class ShardedParameters final : public program::ParameterSource, gather::UnitMemory {
 public:
  // Takes this rank's shards of the program's parameters and lets the rest go. Both must outlive this, and nothing may
  // read the parameters without telling. UsageError for what cannot be sharded.
  ShardedParameters(const program::Program& program, const config::ProgramFacts& facts, Collectives& collectives,
                    const ShardSettings& settings = {});
  ~ShardedParameters() override;
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  // What the optimizer updates: of the settings' dtype, and where those say.
  const program::NamedTensors& pieces() const { return pieces_; }
  // The same, and where they lie; as long as this is there.
  program::Shards shards() const {
    program::Shards shards{collectives_.rank(), collectives_.size(), {}};
    for (const Flat& flat : flats_)
      for (size_t i = 0; i < flat.parameter->pieces().size(); ++i) {
        const auto& [name, piece] = flat.parameter->pieces()[i];
        shards.pieces.push_back({name, piece, flat.parameter->piece_begin(i)});
      }
    return shards;
  }

  // In all.
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
  void set_watcher(UnitWatcher* watcher) { watcher_ = watcher; }  // null: nobody
  // Of the norm of this rank's pieces of gradients (undefined: it has none) that of all; all of them ask.
  at::Tensor norm_of_all(const at::Tensor& here);
  // Whether a rank says so; all of them ask, between steps.
  bool any_rank(bool here);
  int64_t gathered_now_bytes() const;                                // memory of units that is there
  int64_t host_bytes() const { return host_ ? host_->bytes() : 0; }  // of shards and gradients that are kept there

  void before(const program::Op& op, const program::Stack& inputs) override;
  void after(const program::Op& op, const program::Stack& outputs) override;
  void before_rerun(const program::Stack& inputs) override;
  void begin_step() override;
  void begin_forward() override;
  void begin_backward() override;
  void end_backward() override;
  void drop() override;

 private:
  struct Gradients;   // a hook of each parameter
  struct NeededNode;  // a hook of each node whose backward may read a unit
  struct Flat {
    std::unique_ptr<FlatParameter> parameter;
    CollectivePtr gather;  // under way
    at::Tensor brought;    // what that reads, of a shard on the host
    // Rows of gradients of such a shard: the pieces', and, of a later pass, one that is added to them.
    std::array<at::Tensor, 2> on_host;
    bool adds = false;     // the second is on its way
    size_t gradients = 0;  // that this backward has made
    bool reduced = false;  // in this backward
  };
  struct GatheredUnit {
    std::string name;
    std::vector<size_t> flats;
  };
  struct Reduction {
    size_t flat = 0;
    at::Tensor part, whole;
    CollectivePtr collective;
  };
  using Units = gather::UnitSchedule::Units;

  void gather(int unit) override;
  void wait(int unit) override;
  void free(int unit) override;
  void add_unit(const std::string& name, const program::NamedTensors& parameters);
  Units units_in(const program::Stack& tensors) const;
  void need_in_backward(const at::Tensor& made);
  void read_by_node(const Units& units);
  void drop_gradients();
  void gradient_came(size_t flat);
  void reduce(size_t flat);
  void finish_reduction();
  void take_to_host(Flat& flat, const at::Tensor& part);
  void add_what_was_taken();
  void note_order(char kind, size_t flat);
  at::Tensor of_all_ranks(int64_t number, const std::string& what);
  void check_order();

  Collectives& collectives_;
  const ShardSettings settings_;
  std::optional<HostRows> host_;
  std::vector<Flat> flats_;
  std::vector<GatheredUnit> units_;
  ska::flat_hash_map<const c10::StorageImpl*, int> unit_of_;
  program::NamedTensors pieces_;
  std::optional<gather::UnitSchedule> schedule_;
  UnitWatcher* watcher_ = nullptr;
  Units read_;              // by the op that runs
  program::Stack written_;  // by it
  Reduction reduction_;     // under way, or none
  int64_t order_hash_ = 0;  // of all collectives so far
  Counters counters_;
};

}  // namespace memtune::shard
