// Computes gradients of a small decoder: on several ranks that split one batch, and on one rank with the whole batch.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/base/device/torch/make_device.h"
#include "core/engine/autograd/hooks.h"
#include "core/engine/shard/sharded_parameters.h"
#include "core/engine/step/activation_plan_executor.h"
#include "core/engine/step/forward_op_allocation_and_flops_profiler.h"
#include "core/model/frontend/loss.h"
#include "core/model/program/blocks.h"
#include "core/model/program/facts.h"
#include "core/model/program/interpreter.h"
#include "core/plan/rules/strategy.h"
#include "tests/frontend/decoder.h"
#include "tests/shard/ranks.h"
#include "tests/support/training.h"

namespace memtune::tests {

using NamedGradients = std::map<std::string, at::Tensor>;  // flat, whole parameters

struct ShardedStep {
  std::vector<double> losses;  // one per rank
  NamedGradients gradients;
  shard::ShardedParameters::Counters counters;  // of rank 0
  int64_t most_gathered_bytes = 0, left_bytes = 0;
  int64_t device_shard_bytes = 0, device_gradient_bytes = 0;  // of rank 0, after the steps
};

class ShardedTraining {
 public:
  // `change` edits the program before its first use, to tie or freeze parameters.
  explicit ShardedTraining(DecoderSizes sizes, std::function<void(program::Program&)> change = {}, int rows = 12)
      : sizes_(sizes), change_(std::move(change)) {
    test_device();  // installs the counting allocator before any tensor exists
    at::Generator generator = at::globalContext().defaultGenerator(c10::kCPU).clone();
    generator.set_current_seed(5);
    tokens_ = at::empty({rows, sizes.sequence}, at::kLong).random_(0, sizes.vocabulary, generator);
  }

  program::Program program(frontend::LossKind loss = frontend::LossKind::next_token) const {
    program::Program model = build_decoder(sizes_, at::kFloat, c10::kCPU, 3);
    if (change_) change_(model);
    return frontend::with_loss(model, loss, model.inputs.front().name);
  }

  // Plain autograd on all rows, or on the rows of `rank` out of `ranks`.
  NamedGradients on_one_rank(int rank = 0, int ranks = 1) const {
    const program::Program program = this->program();
    program::Interpreter(program).run({rows_of(rank, ranks)}).toTensor().backward();
    NamedGradients gradients;
    for (const auto& [name, parameter] : program.state.parameters)
      if (parameter.grad().defined()) gradients[name] = parameter.grad().flatten();
    return gradients;
  }

  // If shards are in CPU memory, each rank uses a device of its own.
  ShardedStep on(int ranks, const std::string& strategy, shard::ReshardDtypeAndOffloadOptions settings = {},
                 int steps = 2) const {
    std::vector<program::Program> programs;
    for (int i = 0; i < ranks; ++i) programs.push_back(program());
    const plan::ProgramFacts facts = surveyed(programs.front());
    plan::Plan plan = plan::make_plan(plan::Strategy::parse(strategy), facts);
    plan.saved_min_bytes = plan.transfer.min_bytes = 0;
    std::vector<program::NamedTensors> pieces(static_cast<size_t>(ranks));
    ShardedStep result;
    result.losses.resize(static_cast<size_t>(ranks));
    on_ranks(ranks, [&](shard::Collectives& group) {
      const auto rank = static_cast<size_t>(group.rank());
      const program::Program& program = programs[rank];
      const auto device = device::make_device("cpu");
      shard::ReshardDtypeAndOffloadOptions own = settings;
      if (settings.host_of) own.host_of = &*device;
      shard::ShardedParameters parameters(program, facts, group, own);
      step::ActivationPlanExecutor executor(program, facts, plan, *device, test_tiers(plan));
      executor.set_parameters(&parameters);
      program::Interpreter interpreter(program);
      interpreter.set_parameters(&parameters);
      for (int i = 0; i < steps; ++i) {
        for (const auto& [name, piece] : parameters.pieces()) piece.mutable_grad().reset();
        result.losses[rank] = step(executor, interpreter, parameters, rows_of(group.rank(), group.size()), result);
      }
      pieces[rank] = parameters.pieces();
      if (rank == 0) result.counters = parameters.counters();
      if (rank == 0) result.left_bytes = parameters.gathered_now_bytes();
      if (rank == 0) result.device_shard_bytes = parameters.device_shard_bytes();
      if (rank == 0) result.device_gradient_bytes = bytes_of(parameters.device_gradients());
    });
    result.gradients = joined(pieces);
    return result;
  }

  double parameter_bytes() const {
    double bytes = 0;
    for (const auto& [name, parameter] : program().state.parameters) bytes += static_cast<double>(parameter.nbytes());
    return bytes;
  }

 private:
  at::Tensor rows_of(int rank, int ranks) const { return tokens_.chunk(ranks)[static_cast<size_t>(rank)].clone(); }

  plan::ProgramFacts surveyed(const program::Program& program) const {
    auto facts = program::facts(program, program::find_blocks(program, ""));
    step::ForwardOpAllocationAndFlopsProfiler survey(program, facts, c10::kCPU);
    const autograd::SavedTensorHooksScope hooks(&survey);
    program::Interpreter(program).run({tokens_.clone()}, &survey);
    return facts;
  }

  static double step(step::ActivationPlanExecutor& executor, program::Interpreter& interpreter,
                     shard::ShardedParameters& parameters, const at::Tensor& rows, ShardedStep& result) {
    struct Watch final : program::OpObserver {  // tracks the most gathered bytes
      Watch(step::ActivationPlanExecutor& executor, const shard::ShardedParameters& parameters)
          : executor(executor), parameters(parameters) {}
      void before(const program::Op& op, const program::Stack& inputs) override { executor.before(op, inputs); }
      void after(const program::Op& op, const program::Stack& outputs) override {
        executor.after(op, outputs);
        most = std::max(most, parameters.gathered_now_bytes());
      }
      step::ActivationPlanExecutor& executor;
      const shard::ShardedParameters& parameters;
      int64_t most = 0;
    } watch(executor, parameters);
    parameters.begin_step();
    executor.begin_step();
    parameters.begin_forward();
    at::Tensor loss;
    {
      const autograd::SavedTensorHooksScope hooks(&executor);
      loss = interpreter.run({rows}, &watch).toTensor();
    }
    executor.end_forward();
    parameters.begin_backward();
    autograd::backward(loss);
    parameters.end_backward();
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    result.most_gathered_bytes = std::max(result.most_gathered_bytes, watch.most);
    return loss.item<double>();
  }

  static int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
    std::set<const c10::StorageImpl*> storages;
    int64_t bytes = 0;
    for (const at::Tensor& tensor : tensors)
      if (tensor.defined() && storages.insert(tensor.storage().unsafeGetStorageImpl()).second)
        bytes += static_cast<int64_t>(tensor.storage().nbytes());
    return bytes;
  }

  static NamedGradients joined(const std::vector<program::NamedTensors>& pieces) {
    std::map<std::string, std::vector<at::Tensor>> parts;
    for (const auto& of_rank : pieces)
      for (const auto& [name, piece] : of_rank)
        if (piece.grad().defined()) parts[name].push_back(piece.grad());
    NamedGradients gradients;
    for (const auto& [name, of_name] : parts) gradients[name] = at::cat(of_name);
    return gradients;
  }

  DecoderSizes sizes_;
  std::function<void(program::Program&)> change_;
  at::Tensor tokens_;
};

// Returns "" if both have the same parameters and no element differs by more than `most` times the largest element.
inline std::string difference(const NamedGradients& a, const NamedGradients& b, double most) {
  if (a.size() != b.size()) return std::to_string(a.size()) + " parameters, not " + std::to_string(b.size());
  for (const auto& [name, gradient] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.numel() != gradient.numel()) return name + " is of another size";
    const double largest = other->second.abs().max().item<double>();
    const double apart = (gradient - other->second).abs().max().item<double>();
    if (!(apart <= most * largest)) return name + " differs by " + std::to_string(apart / largest);
  }
  return "";
}

}  // namespace memtune::tests
