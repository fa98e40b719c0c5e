// Training whose parameters, gradients and optimizer states are in host memory must be the same training: after 20
// steps losses, parameters and optimizer states have the bits of `none`, with every optimizer, gradient clipping and
// accumulation, tied weights, adapters over frozen and 4-bit weights, experts, autocast and dropout.
#include "core/engine/shard/single_process_host_offloaded_model_states.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>

#include "core/engine/optimizer/optimizer_in_backward.h"
#include "core/measure/trial/forward_backward_runner.h"
#include "core/measure/trial/loaded_model_forward_backward_session.h"
#include "core/model/frontend/loss.h"
#include "core/plan/rules/strategy.h"
#include "tests/frontend/decoder.h"
#include "tests/support/queue_device.h"
#include "tests/support/random.h"
#include "tests/support/run_program.h"
#include "tests/support/samples.h"
#include "tests/support/training.h"
namespace memtune::tests::offloaded_states_test {
namespace {

constexpr char kSizes[] = R"("hidden_size": 40, "intermediate_size": 56, "num_hidden_layers": 3,
  "num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": 8, "vocab_size": 67, "max_position_embeddings": 64,
  "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "attention_bias": false, "mlp_bias": false)";
const std::string kLlama = std::string(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], )") + kSizes;
const std::string kMixtral = std::string(R"({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"],
  "num_local_experts": 4, "num_experts_per_tok": 2, )") +
                             kSizes;

constexpr int64_t kLlamaParameters = 3 * 9 + 3, kLargestParameter = 4 * 67 * 40;  // tensors; bytes

struct Way {
  std::string name;
  std::string model;
  void (*set)(plan::TrainingSettings&);
};

const Way kWays[] = {
    {"plain", kLlama, [](plan::TrainingSettings&) {}},
    {"tied and clipped", kLlama + R"(, "tie_word_embeddings": true)",
     [](plan::TrainingSettings& training) { training.max_grad_norm = 0.1; }},
    {"accumulated", kLlama, [](plan::TrainingSettings& training) { training.accumulate = 3; }},
    {"clipped and accumulated", kLlama + R"(, "tie_word_embeddings": true)",
     [](plan::TrainingSettings& training) {
       training.max_grad_norm = 0.1;
       training.accumulate = 2;
     }},
    {"bfloat16", kLlama,
     [](plan::TrainingSettings& training) {
       training.dtype = "bfloat16";
       training.max_grad_norm = 0.1;
     }},
    {"autocast", kLlama, [](plan::TrainingSettings& training) { training.autocast = "bfloat16"; }},
    {"adapters over frozen weights", kLlama,
     [](plan::TrainingSettings& training) { training.lora = "r=4,dropout=0.1"; }},
    {"adapters over 4-bit weights", kLlama,
     [](plan::TrainingSettings& training) {
       training.lora = "r=4";
       training.load_in = "nf4";
       training.max_grad_norm = 0.1;
     }},
    {"experts", kMixtral, [](plan::TrainingSettings& training) { training.accumulate = 2; }},
};

constexpr const char* kStrategies[] = {
    "states=host",
    "states=host,outside=host",
    "checkpoint:full+states=host,outside=moments",
    "checkpoint:full,inputs=host+states=host,parameters=keep",
    "offload:stream+states=host,moments=keep,blocks=1-",
};

struct Trained {
  std::vector<double> losses;
  program::NamedTensors states;  // parameters and optimizer states
  int64_t host_bytes = 0, floor_bytes = 0;
};

// Held by tensors, without the allocator's rounding: CUDA's rounds each tensor up to 512 bytes.
int64_t requested_bytes() {
  if (test_device().emulated()) return test_device().memory().allocated;
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return c10::getDeviceAllocator(c10::kCUDA)->getDeviceStats(0).requested_bytes[kAll].current;
}

class Training {
 public:
  Training(const Way& way, const std::string& optimizer) {
    std::ofstream(folder_.path / "config.json") << way.model << "}";
    request_.model.path = folder_.path / "config.json";
    plan::TrainingSettings& training = request_.training;
    training.loss = "causal_lm";
    if (!test_device().emulated()) training.device = "cuda";
    training.batch = 2;
    training.sequence = 9;
    training.optimizer = optimizer;
    training.learning_rate = 0.01;
    way.set(training);
  }

  Trained under(const std::string& strategy, int steps) {
    const int64_t before = requested_bytes();
    const plan::TrialRequest request = planned(strategy);
    const std::unique_ptr<trial::ForwardBackwardRunner> runner = trial::make_runner(request);
    const auto optimizer = runner->make_optimizer(request.training);
    CHECK(runner->update_in_backward(*optimizer) == request.plan.offloads_states());
    Trained trained;
    at::manual_seed(3);
    runner->begin_measuring();
    for (int i = 0; i < steps; ++i) {
      const at::Tensor loss = runner->forward_backward();
      optimizer->step();
      trained.losses.push_back(loss.item<double>());
    }
    runner->finish_updates();
    runner->device().synchronize();
    trained.floor_bytes = requested_bytes() - before;
    result::TrialMeasurement figures;
    runner->add_figures(steps, figures);
    trained.host_bytes = figures.host_bytes;
    for (const auto& [name, parameter] : runner->parameters())
      trained.states.emplace_back(name, runner->with_bytes(parameter).detach().clone());
    for (size_t i = 0; i < optimizer->parameters().size(); ++i)
      for (const auto& [name, state] : optimizer->state(i))
        trained.states.emplace_back(runner->parameters()[i].first + " " + name, runner->with_bytes(state).clone());
    return trained;
  }

  // Of three steps, behind two others.
  plan::RecordedStepCosts costs(const std::string& strategy) {
    const plan::TrialRequest request = planned(strategy);
    const std::unique_ptr<trial::ForwardBackwardRunner> runner = trial::make_runner(request);
    const auto optimizer = runner->make_optimizer(request.training);
    std::optional<optimizer::OptimizerInBackward> in_backward;
    if (!runner->update_in_backward(*optimizer) && request.training.optimizer_in_backward)
      in_backward.emplace(*optimizer);
    trial::StepPhaseObserver* notes = nullptr;
    for (int i = 0; i < 5; ++i) {
      if (i == 2) notes = runner->start_costs();
      if (notes) notes->begin_forward();
      runner->forward_backward();
      if (notes) notes->begin_optimizer();
      optimizer->step();
      if (notes) notes->end_optimizer();
      runner->device().synchronize();
      if (notes) notes->end_step();
    }
    plan::RecordedStepCosts costs = runner->finish_costs().value();
    costs.states = runner->state_costs(*optimizer);
    return costs;
  }

 private:
  plan::TrialRequest planned(const std::string& strategy) {
    plan::TrialRequest request = request_;
    trial::LoadedModelForwardBackwardSession session(request);
    session.survey();
    request.plan = plan::make_plan(plan::Strategy::parse(strategy), session.facts());
    request.plan.saved_min_bytes = request.plan.transfer.min_bytes = 0;
    return request;
  }

  test::ScratchFolder folder_;
  plan::TrialRequest request_;
};

void check_equal(const Trained& one, const Trained& other) {
  CHECK(one.losses == other.losses);
  REQUIRE(one.states.size() == other.states.size());
  for (size_t i = 0; i < one.states.size(); ++i) {
    CAPTURE(one.states[i].first);
    CHECK(one.states[i].first == other.states[i].first);
    CHECK(at::equal(one.states[i].second.cpu(), other.states[i].second.cpu()));
  }
}

// 20 steps, and every optimizer, clipped and accumulated; at night every way.
TEST_CASE("training with offloaded states has the bits of none after 20 steps") {
  for (const Way& way : kWays) {
    for (const char* optimizer : {"adamw", "sgd", "adamw_8bit", "adamw_32bit", "adafactor"}) {
      const bool whole = at_night() || &way == &kWays[3];
      if (!whole && std::string(optimizer) != "adamw") continue;
      const int steps = whole ? 20 : 4;
      CAPTURE(way.name);
      CAPTURE(optimizer);
      Training training(way, optimizer);
      const Trained none = training.under("none", steps);
      for (const char* strategy : kStrategies) {
        CAPTURE(strategy);
        check_equal(training.under(strategy, steps), none);
      }
    }
  }
}

TEST_CASE("offloaded moments of a bfloat16 model are float32 with adamw_32bit") {
  const Way& narrow = kWays[4];
  Training training(narrow, "adamw_32bit");
  const Trained none = training.under("none", 20);
  for (const auto& [name, state] : none.states) {
    CAPTURE(name);
    const bool parameter = name.find(' ') == std::string::npos;
    CHECK((state.scalar_type() == (parameter ? at::kBFloat16 : at::kFloat)));
  }
  for (const char* strategy : kStrategies) {
    CAPTURE(strategy);
    check_equal(training.under(strategy, 20), none);
  }
}

// Step counters, a number each, stay on the device.
int64_t bytes_without_counters(const program::NamedTensors& states) {
  int64_t bytes = 0;
  for (const auto& [name, state] : states) bytes += name.ends_with(" step") ? 0 : static_cast<int64_t>(state.nbytes());
  return bytes;
}

TEST_CASE("offloaded states are in host memory and not on the device between steps") {
  const Way packed = {"adapters over 4-bit weights", kLlama, [](plan::TrainingSettings& training) {
                        training.lora = "r=4";
                        training.load_in = "4bit";
                      }};
  const Way narrow = {"bfloat16", kLlama, [](plan::TrainingSettings& training) { training.dtype = "bfloat16"; }};
  for (const auto& [way, optimizer] :
       {std::pair(kWays[0], "adamw"), std::pair(packed, "adamw"), std::pair(narrow, "adamw_32bit")}) {
    CAPTURE(way.name);
    Training training(way, optimizer);
    training.under("none", 1);  // the first kernels allocate workspaces, which stay
    const Trained none = training.under("none", 3), blocks = training.under("states=host", 3),
                  all = training.under("states=host,outside=host", 3),
                  moments = training.under("states=host,parameters=keep", 3);
    CHECK(none.host_bytes == 0);
    CHECK(moments.host_bytes > 0);
    CHECK(blocks.host_bytes > moments.host_bytes);
    CHECK(all.host_bytes > blocks.host_bytes);
    CHECK(moments.floor_bytes < none.floor_bytes);
    CHECK(blocks.floor_bytes < moments.floor_bytes);
    CHECK(all.floor_bytes < blocks.floor_bytes);
    const int64_t bytes = bytes_without_counters(none.states), padding = all.host_bytes - bytes;
    CHECK(none.floor_bytes - all.floor_bytes == bytes);
    CHECK(padding >= 0);
    CHECK(padding < 64 * static_cast<int64_t>(none.states.size()));  // rows align each tensor to 64 bytes
  }
}

// Bytes of a step's costs, in order.
std::vector<std::pair<std::string, int64_t>> bytes_of(const plan::RecordedStepCosts& costs) {
  std::vector<std::pair<std::string, int64_t>> all = {{"start", costs.start_bytes}};
  for (size_t i = 0; i < costs.runs.size(); ++i) {
    all.emplace_back("before run " + std::to_string(i), costs.runs[i].before_bytes);
    all.emplace_back("of run " + std::to_string(i), costs.runs[i].own_bytes);
  }
  all.emplace_back("before peak", costs.before_peak_bytes);
  for (size_t i = 0; i < costs.moments.size(); ++i) {
    all.emplace_back("before moment " + std::to_string(i), costs.moments[i].before_bytes);
    all.emplace_back("peak of moment " + std::to_string(i), costs.moments[i].peak_bytes);
  }
  for (size_t i = 0; i < costs.gradient_bytes.size(); ++i)
    all.emplace_back("gradients " + std::to_string(i), costs.gradient_bytes[i]);
  all.emplace_back("after peak", costs.after_peak_bytes);
  return all;
}

TEST_CASE("costs recorded under offloaded states are those of a step that offloads none") {
  const Way in_backward = {"in backward", kLlama,
                           [](plan::TrainingSettings& training) { training.optimizer_in_backward = true; }};
  for (const Way& way : {kWays[0], kWays[1], kWays[2], kWays[3], kWays[4], kWays[6], in_backward}) {
    for (const std::string kept : {"none", "checkpoint:full"}) {
      CAPTURE(way.name);
      Training training(way, "adamw");
      const plan::RecordedStepCosts resident = training.costs(kept);
      for (const char* states : {"states=host", "states=host,outside=host", "states=host,parameters=keep,blocks=1-"}) {
        const std::string strategy = kept == "none" ? states : kept + "+" + states;
        CAPTURE(strategy);
        const plan::RecordedStepCosts costs = training.costs(strategy);
        CHECK((costs.plan.placements == resident.plan.placements));
        CHECK(costs.states.clips == resident.states.clips);
        REQUIRE(costs.states.units.size() == resident.states.units.size());
        for (size_t i = 0; i < costs.states.units.size(); ++i) {
          const plan::RecordedStepCosts::StateUnit &unit = costs.states.units[i], &wanted = resident.states.units[i];
          CAPTURE(wanted.name);
          CHECK(unit.name == wanted.name);
          CHECK(unit.block == wanted.block);
          CHECK(unit.trained_bytes == wanted.trained_bytes);
          CHECK(unit.frozen_bytes == wanted.frozen_bytes);
          CHECK(unit.moment_bytes == wanted.moment_bytes);
        }
        CHECK((costs.saved == resident.saved));
        CHECK(costs.recorded_ms(1) > 0);
        const auto bytes = bytes_of(costs), wanted = bytes_of(resident);
        REQUIRE(bytes.size() == wanted.size());
        const int64_t padding = 64 * kLlamaParameters;  // in rows, also those that stay on the device
        // Beside an earlier gradient; or until all of the block's exist, which are then updated.
        const int64_t gradients = way.name.ends_with("accumulated") ? kLargestParameter
                                  : way.name == "in backward"       ? costs.states.units[1].trained_bytes
                                                                    : 0;
        for (size_t i = 0; i < bytes.size(); ++i) {
          CAPTURE(wanted[i].first);
          CHECK(std::abs(bytes[i].second - wanted[i].second) <= padding + gradients);
        }
      }
    }
  }
}

// Losses and parameters of a small decoder after three steps. `device` null: plain training.
std::vector<at::Tensor> train(const std::string& strategy, double max_grad_norm, int passes, device::Device* device) {
  test_device();  // installs the counting allocator before any tensor exists
  program::Program model = build_decoder({37, 20, 3, 2, 1, 27, 11}, at::kFloat, c10::kCPU, 3);
  const program::Program program =
      frontend::with_loss(model, frontend::LossKind::next_token, model.inputs.front().name);
  const plan::ProgramFacts facts = program::facts(program, program::find_blocks(program, ""));
  const plan::Plan plan = plan::make_plan(plan::Strategy::parse(strategy), facts);
  std::vector<at::Tensor> parameters, results;
  for (const auto& [name, parameter] : program.state.parameters) parameters.push_back(parameter);
  program::Interpreter interpreter(program);
  std::optional<shard::SingleProcessHostOffloadedModelStates> states;
  if (device) states.emplace(program, facts, plan, *device);
  if (states) interpreter.set_parameters(&*states);
  const auto optimizer = optimizer::make_optimizer({.learning_rate = 0.01, .max_grad_norm = max_grad_norm}, parameters);
  if (states) states->update_with(*optimizer, passes);
  const at::Tensor tokens = at::arange(44, at::kLong).remainder(37).view({4, 11});
  for (int step = 0; step < 3; ++step) {
    if (states) states->begin_step();
    for (int pass = 0; pass < passes; ++pass) {
      if (states) states->begin_forward();
      const at::Tensor loss = interpreter.run({tokens.roll(pass, 1)}).toTensor();
      if (states) states->begin_backward();
      autograd::backward(loss);
      if (states) states->end_backward();
      results.push_back(loss.detach().clone());
    }
    optimizer->step();
  }
  if (states) states->finish_updates();
  if (device) device->synchronize();
  for (const at::Tensor& parameter : parameters)
    results.push_back((states ? states->with_bytes(parameter) : parameter).detach().clone());
  return results;
}

TEST_CASE("copies that run at any time that events allow change no bit") {
  for (const double max_grad_norm : {0.0, 0.1}) {
    for (const int passes : {1, 2}) {
      const std::vector<at::Tensor> plain = train("none", max_grad_norm, passes, nullptr);
      for (uint64_t seed = 0; seed < (at_night() ? 100 : 8); ++seed) {
        CAPTURE(max_grad_norm);
        CAPTURE(passes);
        CAPTURE(seed);
        Random random(seed);
        QueueDevice device(QueueDevice::Compute::caller, seed == 0 ? nullptr : &random);  // 0: as late as possible
        const std::vector<at::Tensor> offloaded =
            train(seed % 2 == 0 ? "states=host,outside=host" : "states=host,blocks=1-", max_grad_norm, passes, &device);
        REQUIRE(offloaded.size() == plain.size());
        for (size_t i = 0; i < plain.size(); ++i) CHECK(at::equal(offloaded[i], plain[i]));
      }
    }
  }
}

}  // namespace
}  // namespace memtune::tests::offloaded_states_test
