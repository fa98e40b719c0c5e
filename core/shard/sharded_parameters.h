// A program's parameters, sharded over ranks: a unit (a block's) is gathered when an op reads it, and the next one
// ahead; freed when others are read; gathered again for backward, and for ops that are run again in it. A unit's
// gradients are reduced as soon as backward has made all of them, while it goes on.
//
//   forward    gather 0 | gather 1 | gather 2 ...        the next while the last computes
//   compute             | block 0  | block 1 ...
//   freed                           | 0      | 1 ...
//
// The mean over the ranks of each rank's gradient is left on the pieces. A parameter that this rank's step did not use
// counts as one with a gradient of zeros. All ranks have to read parameters in the same order, which a model whose
// branches differ by its data may not: each pass ends with a look whether they did.
//
// As fully_shard of PyTorch 2.11 has it (reshard_after_forward, one unit of prefetch each way, one reduction at a
// time).
#pragma once

#include <c10/util/flat_hash_map.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/config/program_facts.h"
#include "core/program/parameter_source.h"
#include "core/shard/collectives.h"
#include "core/shard/flat_parameter.h"
#include "core/shard/unit_order.h"

namespace memtune::shard {

enum class Reshard {
  always,          // after a unit's forward and after its backward
  after_backward,  // what the forward gathered is kept for the backward
  never,           // memory of all units is kept; they are gathered once a step
};
Reshard parse_reshard(const std::string& text);  // UsageError with the valid names

class ShardedParameters final : public program::ParameterSource {
 public:
  // Takes this rank's shards of the program's parameters and lets the rest go. Both must outlive this, and nothing may
  // read the parameters without telling. UsageError for what cannot be sharded.
  ShardedParameters(const program::Program& program, const config::ProgramFacts& facts, Collectives& collectives,
                    Reshard reshard);
  ~ShardedParameters() override;
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  // What the optimizer updates.
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
    std::chrono::nanoseconds waited{0};  // that the host stood for collectives
  };
  const Counters& counters() const { return counters_; }
  // Whether a rank says so; all of them ask, between steps.
  bool any_rank(bool here);
  int64_t gathered_now_bytes() const;  // memory of units that is there

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
    size_t gradients = 0;  // that this backward has made
    bool reduced = false;  // in this backward
  };
  struct GatheredUnit {
    std::string name;
    std::vector<size_t> flats;
    bool in_use = false;
    int returns = 0;  // in this pass
  };
  struct Reduction {
    size_t flat = 0;
    at::Tensor part, whole;
    CollectivePtr collective;
  };
  using Units = std::vector<int>;

  void add_unit(const std::string& name, const program::NamedTensors& parameters);
  Units units_in(const program::Stack& tensors) const;
  void need_in_backward(const at::Tensor& made);
  void need(const Units& units, const Units& kept);
  void enter(int unit);
  void gather(int unit);
  void finish_gather(int unit);
  void leave_others(const Units& units, const Units& kept);
  void free(int unit);
  void begin_pass(UnitOrder& order);
  void gradient_came(size_t flat);
  void reduce(size_t flat);
  void finish_reduction();
  void wait(Collective& collective);
  void note_order(char kind, size_t flat);
  at::Tensor of_all_ranks(int64_t number, const std::string& what);
  void check_order();

  Collectives& collectives_;
  const Reshard reshard_;
  std::vector<Flat> flats_;
  std::vector<GatheredUnit> units_;
  ska::flat_hash_map<const c10::StorageImpl*, int> unit_of_;
  program::NamedTensors pieces_;
  std::vector<bool> stale_;  // by unit: its memory, if there, has an earlier step's numbers
  UnitOrder forward_, backward_;
  UnitOrder* order_ = nullptr;  // of the pass that runs; null: none does
  Units read_;                  // by the op that runs
  program::Stack written_;      // by it
  Units read_by_node_;          // of backward, that runs: while it runs ops again it has not read all of them yet
  Reduction reduction_;         // under way, or none
  int64_t order_hash_ = 0;      // of all collectives so far
  Counters counters_;
};

}  // namespace memtune::shard
