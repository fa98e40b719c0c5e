// Ways of training that change what reads parameters, when their gradients come and where they are kept: ties, adapters
// over frozen weights, several passes a step, autocast, shards on the host and of another dtype. A trial of ranks has
// the gradients of one rank with the samples of all, before and behind an update, and under every strategy its own
// bits.
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include <fstream>
#include <memory>

#include "core/plan/strategy.h"
#include "core/trial/runner.h"
#include "core/trial/session.h"
#include "tests/shard/joined_gradients.h"
#include "tests/shard/rank_processes.h"
#include "tests/support/training.h"

namespace memtune::tests {
namespace {

// No size that 2, 3 or 4 divide but those of heads.
constexpr char kModel[] = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 40,
  "intermediate_size": 55, "num_hidden_layers": 3, "num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": 8,
  "vocab_size": 67, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
  "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": )";

struct Way {
  const char* name;
  bool tied;
  double noise;  // of a gradient's largest number
  void (*set)(config::TrainingSettings&);
};

// Sums in another order, in float32; under autocast products are rounded to 8 bits behind fewer or more rows, and
// in bfloat16 one rank sums its passes so.
constexpr double kNoise = 2e-5, kCastNoise = 2e-2, kHalfNoise = 5e-2;
const Way kWays[] = {
    {"tied", true, kNoise, [](config::TrainingSettings&) {}},
    {"adapters", false, kNoise, [](config::TrainingSettings& training) { training.lora = "r=3"; }},
    {"passes", true, kNoise, [](config::TrainingSettings& training) { training.accumulate = 3; }},
    {"autocast", false, kCastNoise, [](config::TrainingSettings& training) { training.autocast = "bfloat16"; }},
    {"all of them", true, kCastNoise,
     [](config::TrainingSettings& training) {
       training.lora = "r=3,targets=q_proj+down_proj";
       training.accumulate = 2;
       training.autocast = "bfloat16";
     }},
    {"on the host", false, kNoise,
     [](config::TrainingSettings& training) {
       training.shard_offload = true;
       training.accumulate = 3;
     }},
    {"adapters on the host", true, kNoise,
     [](config::TrainingSettings& training) {
       training.shard_offload = true;
       training.lora = "r=3";
     }},
    {"wide shards on the host", true, kHalfNoise, [](config::TrainingSettings& training) {
       training.dtype = "bfloat16";
       training.shard_dtype = training.reduce_dtype = "float32";
       training.shard_offload = true;
       training.accumulate = 2;
     }}};

class Borrowed final : public shard::Collectives {
 public:
  explicit Borrowed(shard::Collectives& group) : group_(group) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  shard::CollectivePtr all_gather(const at::Tensor& whole, const at::Tensor& part, const std::string& what,
                                  const device::EventPtr& behind) override {
    return group_.all_gather(whole, part, what, behind);
  }
  shard::CollectivePtr reduce_scatter(const at::Tensor& part, const at::Tensor& whole,
                                      const std::string& what) override {
    return group_.reduce_scatter(part, whole, what);
  }
  std::chrono::nanoseconds stood() override { return group_.stood(); }

 private:
  shard::Collectives& group_;
};

void learn(const program::NamedTensors& parameters) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : parameters)
    if (parameter.grad().defined()) parameter.sub_(parameter.grad());
}

class WayOfRanks {
 public:
  WayOfRanks(const Way& way, shard::Collectives& group) : way_(way), group_(group) {
    std::ofstream(folder_.path / "config.json") << kModel << (way.tied ? "true}" : "false}");
    request_.model.path = folder_.path / "config.json";
    auto& training = request_.training;
    training.loss = "causal_lm";
    training.sequence = 9;
    way.set(training);
  }

  void check() {
    const Steps one = of_one(), none = of_ranks("none");
    for (size_t step = 0; step < one.size(); ++step) {
      REQUIRE(one[step].size() == none[step].size());
      for (size_t i = 0; i < one[step].size(); ++i) {
        CAPTURE(one[step][i].first);
        CHECK(none[step][i].first == one[step][i].first);
        const at::Tensor expected = one[step][i].second, seen = none[step][i].second;
        CHECK((expected - seen).abs().max().item<double>() <= way_.noise * expected.abs().max().item<double>());
      }
    }
    for (const char* strategy : {"checkpoint:full", "checkpoint:op,inputs=host", "checkpoint:cheap", "offload:stream",
                                 "offload:torchtune", "checkpoint:full+offload:trl"}) {
      CAPTURE(strategy);
      const Steps steps = of_ranks(strategy);
      for (size_t step = 0; step < steps.size(); ++step)
        for (size_t i = 0; i < steps[step].size(); ++i) CHECK(at::equal(steps[step][i].second, none[step][i].second));
    }
  }

 private:
  using Steps = std::vector<program::NamedTensors>;  // gradients

  Steps of_one() {
    config::TrialRequest request = request_;
    request.training.batch = 2 * group_.size();
    const auto runner = trial::make_runner(request);
    Steps steps;
    for (int i = 0; i < 2; ++i) {
      runner->forward_backward();
      steps.emplace_back();
      for (const auto& [name, parameter] : runner->parameters())
        if (parameter.requires_grad()) steps.back().emplace_back(name, parameter.grad().flatten().clone());
      learn(runner->parameters());
      runner->drop_gradients();
    }
    return steps;
  }

  Steps of_ranks(const std::string& strategy) {
    config::TrialRequest request = request_;
    request.training.batch = 2;
    request.training.ranks = group_.size();
    request.rank = group_.rank();
    trial::Session session(request);  // of whole parameters
    session.survey();
    request.plan = plan::make_plan(config::Strategy::parse(strategy), session.facts());
    request.plan.saved_min_bytes = request.plan.transfer.min_bytes = 0;
    const auto runner = trial::make_runner(request, std::make_unique<Borrowed>(group_));
    Steps steps;
    for (int i = 0; i < 2; ++i) {
      runner->forward_backward();
      steps.push_back(joined_gradients(group_, session.parameters(), runner->parameters()));
      learn(runner->parameters());
      runner->drop_gradients();
    }
    return steps;
  }

  const Way& way_;
  shard::Collectives& group_;
  test::ScratchFolder folder_;
  config::TrialRequest request_;
};

TEST_CASE("ways of training go on ranks as on one") {
  for (const int size : {2, 3})
    on_rank_processes("ways of training go on ranks as on one", size,
                      [](shard::Collectives& group, const std::filesystem::path& progress) {
                        at::set_num_threads(1);
                        for (const Way& way : kWays) {
                          CAPTURE(way.name);
                          std::ofstream(progress) << way.name;
                          WayOfRanks(way, group).check();
                        }
                      });
}

}  // namespace
}  // namespace memtune::tests
