// Training settings that change which ops read parameters, when gradients arrive and where shards are kept: tied
// weights, adapters over frozen weights, gradient accumulation, autocast, shards in CPU memory and shards of another
// dtype. Each rank has some rows of one batch. The gradients equal the mean of the unsharded gradients of each rank's
// rows, before and after an update. Every strategy gives the same bits as `none`.
#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include <fstream>
#include <memory>

#include "core/measure/trial/forward_backward_runner.h"
#include "core/measure/trial/loaded_model_forward_backward_session.h"
#include "core/plan/rules/strategy.h"
#include "tests/shard/joined_gradients.h"
#include "tests/shard/rank_processes.h"
#include "tests/support/rounding.h"
#include "tests/support/samples.h"
#include "tests/support/training.h"
namespace memtune::tests::settings_test {
namespace {

// Apart from the sizes of heads, no size is divisible by 2, 3 or 4.
constexpr char kModel[] = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 40,
  "intermediate_size": 55, "num_hidden_layers": 3, "num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": 8,
  "vocab_size": 67, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
  "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": )";

struct Way {
  const char* name;
  bool tied;
  void (*set)(plan::TrainingSettings&);
};

const Way kWays[] = {{"tied", true, [](plan::TrainingSettings&) {}},
                     {"adapters", false, [](plan::TrainingSettings& training) { training.lora = "r=3"; }},
                     {"passes", true, [](plan::TrainingSettings& training) { training.accumulate = 3; }},
                     {"autocast", false, [](plan::TrainingSettings& training) { training.autocast = "bfloat16"; }},
                     {"all of them", true,
                      [](plan::TrainingSettings& training) {
                        training.lora = "r=3,targets=q_proj+down_proj";
                        training.accumulate = 2;
                        training.autocast = "bfloat16";
                      }},
                     {"on the host", false,
                      [](plan::TrainingSettings& training) {
                        training.shard_offload = true;
                        training.accumulate = 3;
                      }},
                     {"adapters on the host", true,
                      [](plan::TrainingSettings& training) {
                        training.shard_offload = true;
                        training.lora = "r=3";
                      }},
                     {"wide shards on the host", true, [](plan::TrainingSettings& training) {
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
  shard::PendingCollectivePtr all_gather(const at::Tensor& whole, const at::Tensor& part, const std::string& what,
                                         const device::EventPtr& behind) override {
    return group_.all_gather(whole, part, what, behind);
  }
  shard::PendingCollectivePtr reduce_scatter(const at::Tensor& part, const at::Tensor& whole,
                                             const std::string& what) override {
    return group_.reduce_scatter(part, whole, what);
  }
  std::chrono::nanoseconds exposed_time() override { return group_.exposed_time(); }

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
    check_rows();
    const Steps none = of_ranks("none");
    check_means(none);
    for (const char* strategy : {"checkpoint:full", "checkpoint:op,inputs=host", "checkpoint:cheap", "offload:stream",
                                 "offload:torchtune", "checkpoint:full+offload:trl"}) {
      CAPTURE(strategy);
      const Steps steps = of_ranks(strategy);
      for (size_t step = 0; step < steps.size(); ++step)
        for (size_t i = 0; i < steps[step].size(); ++i) CHECK(at::equal(steps[step][i].second, none[step][i].second));
    }
  }

 private:
  static constexpr int64_t kRows = 2;                // per rank
  using Steps = std::vector<program::NamedTensors>;  // gradients of each step

  plan::TrialRequest of_this_rank() const {
    plan::TrialRequest request = request_;
    request.training.batch = kRows;
    request.training.ranks = group_.size();
    request.envelope.rank = group_.rank();
    return request;
  }

  void check_rows() const {
    plan::TrialRequest of_one = request_;
    of_one.training.batch = kRows * group_.size();
    const plan::TrialRequest of_rank = of_this_rank();
    const trial::LoadedModelForwardBackwardSession one(of_one), rank(of_rank);
    REQUIRE(rank.batch().tensors.size() == one.batch().tensors.size());
    for (size_t i = 0; i < one.batch().tensors.size(); ++i)
      CHECK(at::equal(rank.batch().tensors[i], one.batch().tensors[i].narrow(0, group_.rank() * kRows, kRows)));
  }

  // Each rank trains an unsharded copy with the sharded gradients, in the precision of the shards.
  void check_means(const Steps& seen) const {
    const plan::TrialRequest request = of_this_rank();
    trial::LoadedModelForwardBackwardSession rank(request);
    program::NamedTensors trained, learned;
    for (const auto& [name, parameter] : rank.parameters())
      if (parameter.requires_grad()) trained.emplace_back(name, parameter);
    for (const auto& [name, parameter] : trained)
      learned.emplace_back(name, parameter.detach().flatten().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true));
    for (const program::NamedTensors& step : seen) {
      rank.forward_backward(nullptr, nullptr);
      REQUIRE(step.size() == trained.size());
      for (size_t i = 0; i < trained.size(); ++i) {
        const auto& [name, parameter] = trained[i];
        CAPTURE(name);
        CHECK(step[i].first == name);
        check_mean(step[i].second, parameter);
        follow(learned[i].second, step[i].second, parameter);
      }
    }
  }

  // A sum of N numbers, in any order, differs from the true sum by at most (N - 1) u times the sum of their sizes.
  // Ranks sum one micro-batch over all ranks, divide it and add it to the other micro-batches, in float32. Autograd
  // adds a rank's micro-batches in the parameter's dtype. All micro-batches have the same sign here. The divisor allows
  // for products of roundings.
  void check_mean(const at::Tensor& seen, const at::Tensor& parameter) const {
    const int passes = request_.training.accumulate;
    const double roundings = (group_.size() + passes - 1) * unit_roundoff(at::kFloat) +
                             (passes - 1) * unit_roundoff(parameter.scalar_type());
    const at::Tensor all = rows_of_all(group_, parameter.grad().flatten().to(at::kFloat)).to(at::kDouble);
    const at::Tensor allowed = all.abs().mean(0) * (roundings / (1 - 2 * roundings));
    CHECK(((seen - all.mean(0)).abs() <= allowed).all().item<bool>());
  }

  static void follow(const at::Tensor& learned, const at::Tensor& gradient, const at::Tensor& parameter) {
    const at::NoGradGuard no_grad;
    parameter.copy_(learned.sub_(gradient).view_as(parameter));
    parameter.mutable_grad().reset();
  }

  Steps of_ranks(const std::string& strategy) {
    plan::TrialRequest request = of_this_rank();
    trial::LoadedModelForwardBackwardSession session(request);  // has whole parameters
    session.survey();
    request.plan = plan::make_plan(plan::Strategy::parse(strategy), session.facts());
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
  plan::TrialRequest request_;
};

TEST_CASE("training settings give the same gradients on several ranks as on one") {
  for (const int size : tests::at_night() ? std::vector{2, 3} : std::vector{2})
    on_rank_processes("training settings give the same gradients on several ranks as on one", size,
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
}  // namespace memtune::tests::settings_test
