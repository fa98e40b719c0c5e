// Why: a sharded step must compute what the unsharded step computes. Its gradients equal those of one rank with all
// rows. Under each strategy it has the same bits as `none` on as many ranks.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/engine/shard/flat_parameter.h"
#include "core/engine/shard/units.h"
#include "tests/shard/sharded_training.h"
#include "tests/support/rounding.h"
#include "tests/support/samples.h"
namespace memtune::tests::sharded_parameters_test {
namespace {

using shard::ReshardPolicy;

// Half of the digits: another order of summation loses fewer, and errors show in the first half. settings_test.cpp and
// random_test.cpp check the mean to the last digit.
const double kRounding = std::sqrt(unit_roundoff(at::kFloat));

// No width and no number of parameters is divisible by 2, 3 or 4.
const DecoderSizes kSizes{37, 20, 3, 2, 1, 27, 11};

TEST_CASE("ranks that split the batch get the gradients of one rank with the whole batch") {
  const ShardedTraining training(kSizes);
  const NamedGradients one = training.on_one_rank();
  REQUIRE(one.size() == training.program().state.parameters.size());
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    CHECK(difference(training.on(ranks, "none").gradients, one, kRounding) == "");
  }
}

TEST_CASE("every strategy gives the same bits as none on as many ranks") {
  const ShardedTraining training(kSizes);
  for (const int ranks : tests::at_night() ? std::vector{2, 4} : std::vector{4}) {
    const ShardedStep none = training.on(ranks, "none");
    for (const std::string& strategy : all_strategies()) {
      CAPTURE(ranks);
      CAPTURE(strategy);
      const ShardedStep step = training.on(ranks, strategy);
      CHECK(step.losses == none.losses);
      CHECK(difference(step.gradients, none.gradients, 0) == "");
    }
  }
}

TEST_CASE("the reshard policy changes gathers and gathered bytes but no bit of the gradients") {
  const ShardedTraining training(kSizes);
  const ShardedStep always = training.on(2, "none"),
                    kept = training.on(2, "none", {.reshard = ReshardPolicy::after_backward}),
                    never = training.on(2, "none", {.reshard = ReshardPolicy::never});
  CHECK(difference(kept.gradients, always.gradients, 0) == "");
  CHECK(difference(never.gradients, always.gradients, 0) == "");
  CHECK(always.left_bytes == 0);
  CHECK(kept.left_bytes == 0);
  CHECK(static_cast<double>(never.left_bytes) >= training.parameter_bytes());
  CHECK(always.most_gathered_bytes < kept.most_gathered_bytes);
  CHECK(kept.most_gathered_bytes <= never.most_gathered_bytes);
  // Five units, two steps. The embedding's backward reads no weight. The head is still gathered when backward begins.
  CHECK(always.counters.gathers == 2 * (5 + 3));
  CHECK(kept.counters.gathers == 2 * 5);
  CHECK(never.counters.gathers == 2 * 5);
  CHECK(always.counters.reduces == 2 * 5);
}

// The weights of two blocks, chosen by rank, and copies from before sharding.
struct TwoUnits {
  explicit TwoUnits(int rank_of_reader) : program(ShardedTraining(kSizes).program()) {
    const auto facts = program::facts(program, program::find_blocks(program, ""));
    const auto units = shard::find_units(program, facts);
    for (const int unit : {rank_of_reader, rank_of_reader + 1})
      for (const auto& [name, parameter] : units[static_cast<size_t>(unit)].parameters)
        if (parameter.dim() == 2) {
          weights.push_back(parameter);
          before.push_back(parameter.detach().clone());
          break;
        }
    op.name = "aten::mm";
  }
  plan::ProgramFacts facts() const { return program::facts(program, program::find_blocks(program, "")); }

  program::Program program;
  std::vector<at::Tensor> weights, before;
  program::Op op;
};

// The gradients of each rank's own rows, averaged in double precision: the result of a reduction in double.
NamedGradients mean_of_ranks(const ShardedTraining& training, int ranks) {
  NamedGradients mean;
  for (int rank = 0; rank < ranks; ++rank)
    for (const auto& [name, gradient] : training.on_one_rank(rank, ranks))
      mean[name] = rank == 0 ? gradient.to(at::kDouble) : mean[name] + gradient;
  for (auto& [name, gradient] : mean) gradient /= ranks;
  return mean;
}

TEST_CASE("gradients are reduced in reduce_dtype and stored in the dtype of the shards") {
  const ShardedTraining training(kSizes);
  const NamedGradients exact = mean_of_ranks(training, 2);
  const ShardedStep wide = training.on(2, "none", {.dtype = at::kDouble, .reduce_dtype = at::kDouble});
  CHECK(difference(wide.gradients, exact, 0) == "");
  for (const auto& [name, gradient] : wide.gradients) CHECK((gradient.scalar_type() == at::kDouble));
  const ShardedStep kept = training.on(2, "none", {.dtype = at::kDouble});  // the reduction in float32 rounds the sum
  CHECK(difference(kept.gradients, training.on(2, "none").gradients, 0) == "");
  CHECK(difference(kept.gradients, exact, 0) != "");
  CHECK(wide.counters.gathered_bytes == kept.counters.gathered_bytes);
  CHECK(wide.counters.reduced_bytes == 2 * kept.counters.reduced_bytes);
}

TEST_CASE("shards of a wider dtype keep updates that the parameters' dtype would round away") {
  on_ranks(2, [&](shard::Collectives& group) {
    TwoUnits two(1);
    shard::ShardedParameters parameters(two.program, two.facts(), group, {.dtype = at::kDouble});
    const auto weight_after = [&](double each, int updates) {
      const at::NoGradGuard no_grad;
      for (int i = 0; i < updates; ++i)
        for (const auto& [name, piece] : parameters.pieces()) piece.mul_(1 + each);
      parameters.begin_step();
      parameters.begin_forward();
      parameters.before(two.op, {two.weights[0]});
      at::Tensor weight = two.weights[0].detach().clone();
      parameters.after(two.op, {});
      parameters.begin_backward();
      parameters.end_backward();
      return weight;
    };
    CHECK(at::equal(weight_after(1e-9, 1), two.before[0]));
    CHECK(at::allclose(weight_after(1e-9, 1000), two.before[0] * (1 + 1e-6), /*rtol=*/2e-7, /*atol=*/0));
  });
}

TEST_CASE("shards in CPU memory change no bit under any strategy and free device memory") {
  const ShardedTraining training(kSizes);
  const auto device = device::make_device("cpu");
  for (const char* strategy : {"none", "checkpoint:full", "offload:stream"}) {
    CAPTURE(strategy);
    const ShardedStep here = training.on(2, strategy), there = training.on(2, strategy, {.host_of = &*device});
    CHECK(here.losses == there.losses);
    CHECK(difference(there.gradients, here.gradients, 0) == "");
    CHECK(there.device_shard_bytes == 0);
    CHECK(there.device_gradient_bytes == 0);
    CHECK(2 * static_cast<double>(here.device_shard_bytes) >= training.parameter_bytes());
    CHECK(here.device_gradient_bytes == here.device_shard_bytes);
  }
  std::array<int64_t, 2> there = {}, here = {};  // both ranks together: the allocator counts them as one
  for (const bool on_host : {false, true})
    on_ranks(2, [&](shard::Collectives& group) {
      const auto own = device::make_device("cpu");
      TwoUnits two(1);
      shard::ShardedParameters parameters(two.program, two.facts(), group, {.host_of = on_host ? &*own : nullptr});
      CHECK(parameters.any_rank(false) == false);  // barrier: both ranks have made their shards
      (on_host ? there : here)[static_cast<size_t>(group.rank())] = own->memory().allocated;
      CHECK((parameters.host_bytes() > 0) == on_host);
      CHECK(parameters.any_rank(false) == false);  // barrier: both ranks have read the counter
    });
  const auto bytes = static_cast<int64_t>(ShardedTraining(kSizes).parameter_bytes());
  CHECK(std::ranges::max(here) - std::ranges::max(there) >= bytes);
}

TEST_CASE("the memory of a parameter that is a view, such as a packed weight, is freed") {
  const at::TensorOptions options(device::torch_device(test_device()));
  for (const bool trained : {false, true}) {
    CAPTURE(trained);
    const int64_t before = test_device().memory().allocated;
    at::Tensor view = at::arange(1024, options.dtype(at::kFloat)).unsqueeze(1);
    view.requires_grad_(trained);
    REQUIRE(view.is_view());
    shard::FlatParameter flat("unit", {{"weight", view}}, 0, 1);
    CHECK(test_device().memory().allocated - before == static_cast<int64_t>(flat.shard().nbytes()));
    CHECK(view.requires_grad() == trained);
    flat.allocate();
    CHECK(view.data_ptr() == flat.whole().data_ptr());
  }
}

TEST_CASE("gradients whose sum would overflow half precision are reduced to their mean") {
  std::array<double, 2> largest = {};
  on_ranks(2, [&](shard::Collectives& group) {
    TwoUnits two(1);
    shard::ShardedParameters parameters(two.program, two.facts(), group, {.reduce_dtype = at::kHalf});
    parameters.begin_step();
    parameters.begin_forward();
    const at::Tensor x = at::full({1, two.weights[0].size(0)}, 4e4);  // the largest finite half is 65504
    parameters.before(two.op, {x, two.weights[0]});
    const at::Tensor y = x.mm(two.weights[0]);
    parameters.after(two.op, {y});
    parameters.begin_backward();
    y.sum().backward();
    parameters.end_backward();
    for (const auto& [name, piece] : parameters.pieces()) {
      double& own = largest[static_cast<size_t>(group.rank())];
      own = std::max(own, piece.grad().abs().max().item<double>());
    }
  });
  CHECK(std::ranges::max(largest) == doctest::Approx(4e4).epsilon(1e-3));  // only one rank holds the weight
}

TEST_CASE("a pass of known order gathers one unit ahead and holds no more") {
  const ShardedTraining training({37, 20, 12, 2, 1, 27, 11});
  const ShardedStep step = training.on(2, "none");
  CHECK(static_cast<double>(step.most_gathered_bytes) < 0.35 * training.parameter_bytes());
}

TEST_CASE("ranks that read parameters in different orders fail and never mix up blocks") {
  std::vector<program::Program> programs;
  for (int i = 0; i < 2; ++i) programs.push_back(ShardedTraining(kSizes).program());
  const auto run = [&] {
    on_ranks(2, [&](shard::Collectives& group) {
      const auto rank = static_cast<size_t>(group.rank());
      const program::Program& program = programs[rank];
      const auto facts = program::facts(program, program::find_blocks(program, ""));
      const auto units = shard::find_units(program, facts);
      shard::ShardedParameters parameters(program, facts, group);
      parameters.begin_step();
      parameters.begin_forward();
      for (const size_t unit : {1 + rank, 2 - rank})
        parameters.before(program.body.ops.front(), {units[unit].parameters.front().second});
      parameters.begin_backward();
      parameters.end_backward();
    });
  };
  CHECK_THROWS_WITH_AS(
      run(),
      "the ranks have read parameters in different orders: the model's branches differ by its data, and "
      "it cannot be sharded",
      Error);
}

TEST_CASE("frozen parameters are gathered and have no gradient") {
  const auto freeze = [](program::Program& program) {
    for (auto& [name, parameter] : program.state.parameters)
      if (parameter.dim() == 1 || name.find("w1") != std::string::npos) parameter.requires_grad_(false);
  };
  const ShardedTraining training(kSizes, freeze);
  const NamedGradients one = training.on_one_rank();
  REQUIRE(one.size() < training.program().state.parameters.size());
  REQUIRE(one.size() > 3);
  for (const char* strategy : {"none", "checkpoint:full", "offload:stream"})
    CHECK(difference(training.on(2, strategy).gradients, one, kRounding) == "");
}

TEST_CASE("an op that returns its input does not take the weight from the backward of the op before it") {
  on_ranks(2, [&](shard::Collectives& group) {
    TwoUnits two(1);
    shard::ShardedParameters parameters(two.program, two.facts(), group);
    parameters.begin_step();
    parameters.begin_forward();
    const at::Tensor x = at::ones({3, two.weights[0].size(0)}).requires_grad_();
    parameters.before(two.op, {x, two.weights[0]});
    const at::Tensor y = x.mm(two.weights[0]);
    parameters.after(two.op, {y});
    parameters.before(two.op, {y, two.weights[1]});  // like y.type_as(weight)
    parameters.after(two.op, {y});
    parameters.begin_backward();
    y.sum().backward();
    parameters.end_backward();
    CHECK(at::allclose(x.grad(), at::ones_like(y).mm(two.before[0].t())));
  });
}

TEST_CASE("an op that writes into a parameter is rejected because its write would be lost") {
  on_ranks(2, [&](shard::Collectives& group) {
    TwoUnits two(1);
    shard::ShardedParameters parameters(two.program, two.facts(), group);
    parameters.begin_step();
    parameters.begin_forward();
    two.op.writes = {true};
    CHECK_THROWS_WITH_AS(parameters.before(two.op, {two.weights[0]}),
                         "aten::mm writes into a parameter: the model cannot be sharded", UsageError);
  });
}

TEST_CASE("any_rank is true on all ranks if one rank passes true") {
  for (const int speaker : {-1, 0, 2})
    on_ranks(3, [&](shard::Collectives& group) {
      TwoUnits two(1);
      shard::ShardedParameters parameters(two.program, two.facts(), group);
      CHECK(parameters.any_rank(group.rank() == speaker) == (speaker >= 0));
    });
}

}  // namespace
}  // namespace memtune::tests::sharded_parameters_test
