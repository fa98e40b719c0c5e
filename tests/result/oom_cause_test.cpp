// Each cause has a case that another rule answers if its own is missing.
#include "core/answer/result/oom_cause.h"

#include <doctest/doctest.h>

#include "core/answer/result/oom_remedy.h"

namespace memtune::oom_cause_test {

using namespace memtune::result;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// Activations of a batch that is too large, on a device of 80 GiB.
OutOfMemoryBreakdown failure() {
  OutOfMemoryBreakdown oom;
  oom.step = 3;
  oom.phase = PeakMemoryTrainingPhase::forward;
  oom.stacks = true;
  oom.requested_bytes = 4 * kGiB;
  oom.limit_bytes = oom.total_bytes = 80 * kGiB;
  oom.free_bytes = kGiB;
  oom.allocated_bytes = 76 * kGiB;
  oom.reserved_bytes = 77 * kGiB;
  oom.other_processes_bytes = kGiB / 2;
  oom.parameters_bytes = oom.gradients_bytes = 4 * kGiB;
  oom.optimizer_bytes = 8 * kGiB;
  oom.rest_bytes = 60 * kGiB;
  oom.batch = oom.largest_batch = {4, 4096, 4096};
  oom.held_after_steps = {16 * kGiB, 16 * kGiB};
  oom.models = {{"Llama", 4 * kGiB, true}};
  oom.lines = {{"model.py", 20, "forward", "linear", "hidden = self.up(x)", 50 * kGiB, 100}};
  oom.where = {"model.py", 20, "forward", "linear", "hidden = self.up(x)", 4 * kGiB, 1};
  return oom;
}

template <typename Change>
OomCause cause_with(Change change) {
  OutOfMemoryBreakdown oom = failure();
  change(oom);
  return cause_of(oom);
}

}  // namespace

TEST_CASE("activations are the cause if nothing else is") { CHECK(cause_of(failure()) == OomCause::activations); }

TEST_CASE("other processes are a cause if they hold what was asked for") {
  const auto with = [](int64_t others, int64_t limit = 80 * kGiB) {
    return cause_with([&](OutOfMemoryBreakdown& oom) {
      oom.other_processes_bytes = others;
      oom.limit_bytes = limit;
    });
  };
  CHECK(with(4 * kGiB) == OomCause::other_process);
  CHECK(with(4 * kGiB - 1) == OomCause::activations);
  CHECK(with(40 * kGiB, 79 * kGiB) == OomCause::activations);  // a limit of its own
  CHECK(with(40 * kGiB, 80 * kGiB - kGiB / 2) == OomCause::other_process);
  CHECK(cause_with([](OutOfMemoryBreakdown& oom) {
          oom.requested_bytes = kGiB / 64;
          oom.other_processes_bytes = 3 * kGiB;  // may be the driver's
        }) == OomCause::activations);
  CHECK(cause_with([](OutOfMemoryBreakdown& oom) { oom.other_processes_bytes.reset(); }) == OomCause::activations);
}

TEST_CASE("fragmentation is the cause if as much was reserved and not allocated") {
  const auto with = [](int64_t pieces, int64_t others = 0, int64_t requested = 8 * kGiB) {
    return cause_with([&](OutOfMemoryBreakdown& oom) {
      oom.requested_bytes = requested;
      oom.allocated_bytes = oom.reserved_bytes - pieces;
      oom.other_processes_bytes = others;
    });
  };
  CHECK(with(8 * kGiB) == OomCause::fragmentation);
  CHECK(with(8 * kGiB - 1) == OomCause::activations);
  CHECK(with(9 * kGiB, 8 * kGiB) == OomCause::fragmentation);  // the larger of both
  CHECK(with(8 * kGiB, 9 * kGiB) == OomCause::other_process);
  CHECK(with(8 * kGiB, 0, kGiB / 64) == OomCause::fragmentation);
  CHECK(with(8 * kGiB - 1, 0, kGiB / 64) == OomCause::activations);  // growing segments would not get far
  CHECK(with(10 * kGiB, 0, 11 * kGiB) == OomCause::activations);
}

TEST_CASE("a second copy of the model is a cause if it is not trained") {
  const auto with = [](const OomLoadedModel& second) {
    return cause_with([&](OutOfMemoryBreakdown& oom) { oom.models.push_back(second); });
  };
  CHECK(with({"Llama", 4 * kGiB, false}) == OomCause::loaded_twice);
  CHECK(with({"Llama", 4 * kGiB, true}) == OomCause::activations);
  CHECK(with({"Teacher", 4 * kGiB, false}) == OomCause::activations);
  CHECK(with({"Llama", 2 * kGiB, false}) == OomCause::activations);
  CHECK(cause_with([](OutOfMemoryBreakdown& oom) {
          oom.models = {{"Head", kGiB, true}, {"Head", kGiB, false}};  // small
        }) == OomCause::activations);
}

TEST_CASE("an evaluation has two causes") {
  CHECK(cause_with([](OutOfMemoryBreakdown& oom) { oom.evaluating = true; }) == OomCause::evaluation_with_gradients);
  CHECK(cause_with([](OutOfMemoryBreakdown& oom) { oom.phase = PeakMemoryTrainingPhase::no_gradients; }) ==
        OomCause::evaluation_batch);
}

TEST_CASE("memory that grows with each step is a leak") {
  const auto with = [](std::vector<int64_t> held) {
    return cause_with([&](OutOfMemoryBreakdown& oom) {
      for (int64_t& each : held) each *= kGiB;
      oom.held_after_steps = held;
    });
  };
  CHECK(with({16, 30, 44, 58}) == OomCause::leak);
  CHECK(with({16, 30, 44}) == OomCause::activations);
  CHECK(with({16, 30, 30, 58}) == OomCause::activations);
  CHECK(with({16, 17, 18, 19}) == OomCause::activations);  // not what filled the device
}

TEST_CASE("the first update is the cause in the first step alone") {
  const auto with = [](int64_t step) {
    return cause_with([&](OutOfMemoryBreakdown& oom) {
      oom.phase = PeakMemoryTrainingPhase::update;
      oom.step = step;
    });
  };
  CHECK(with(1) == OomCause::first_update);
  CHECK(with(2) == OomCause::states);
}

TEST_CASE("a batch that is larger than all before is a cause") {
  CHECK(cause_with([](OutOfMemoryBreakdown& oom) { oom.batch = {4, 8192, 8192}; }) == OomCause::longer_batch);
  CHECK(cause_with([](OutOfMemoryBreakdown& oom) {
          oom.batch = {5, 0, 0};
          oom.largest_batch = {4, 0, 0};
        }) == OomCause::longer_batch);
  CHECK(cause_with([](OutOfMemoryBreakdown& oom) {
          oom.batch = {8, 4096, 4096};
          oom.largest_batch = {2, 8192, 8192};
        }) == OomCause::activations);
  CHECK(cause_with([](OutOfMemoryBreakdown& oom) { oom.largest_batch = {}; }) ==
        OomCause::activations);  // the first one
}

TEST_CASE("logits and scores are a cause if their lines hold a quarter of the need") {
  const auto with = [](const char* text, const char* function, const char* inner, int64_t bytes) {
    return cause_with([&](OutOfMemoryBreakdown& oom) {
      oom.lines.push_back({"model.py", 90, function, inner, text, bytes, 2});
    });
  };
  CHECK(with("logits = self.lm_head(hidden)", "forward", "linear", 20 * kGiB) == OomCause::loss);
  CHECK(with("return F.nll(x)", "forward", "cross_entropy", 20 * kGiB) == OomCause::loss);
  CHECK(with("x = x.float()", "fixed_Cross_Entropy", "", 20 * kGiB) == OomCause::loss);
  CHECK(with("logits = self.lm_head(hidden)", "forward", "linear", 20 * kGiB - 1) == OomCause::activations);
  CHECK(with("p = torch.softmax(q @ k.T, -1)", "forward", "", 20 * kGiB) == OomCause::attention);
  CHECK(with("x = q @ k.T", "eager_attention_forward", "", 20 * kGiB) == OomCause::attention);
  CHECK(with("x = F.log_softmax(x)", "forward", "", 20 * kGiB) == OomCause::loss);
  CHECK(with("loss = trainer.compute_loss(x)", "training_step", "", 20 * kGiB) == OomCause::activations);
}

TEST_CASE("the failed request counts for its line") {
  CHECK(cause_with([](OutOfMemoryBreakdown& oom) {
          oom.requested_bytes = 30 * kGiB;
          oom.allocated_bytes = 60 * kGiB;
          oom.reserved_bytes = 60 * kGiB;
          oom.where.text = "logits = self.lm_head(hidden)";
        }) == OomCause::loss);
}

TEST_CASE("states are the cause if they are more than half of the need") {
  CHECK(cause_with([](OutOfMemoryBreakdown& oom) { oom.optimizer_bytes = 33 * kGiB; }) == OomCause::states);
  CHECK(cause_with([](OutOfMemoryBreakdown& oom) { oom.optimizer_bytes = 32 * kGiB; }) == OomCause::activations);
}

TEST_CASE("a model that is not trained and ran with gradients is a cause") {
  const auto with = [](const OomLoadedModel& second) {
    return cause_with([&](OutOfMemoryBreakdown& oom) { oom.models.push_back(second); });
  };
  CHECK(with({"Teacher", 4 * kGiB, false, true}) == OomCause::untrained_with_gradients);
  CHECK(with({"Teacher", 4 * kGiB, true, true}) == OomCause::activations);   // trained since
  CHECK(with({"Teacher", 3 * kGiB, false, true}) == OomCause::activations);  // small
  CHECK(cause_with([](OutOfMemoryBreakdown& oom) {
          oom.models = {{"Llama", 4 * kGiB, false, true}};  // its optimizer has copies of its own
        }) == OomCause::activations);
}

TEST_CASE("many runs without a backward keep activations as an evaluation does") {
  const auto with = [](int64_t runs, int64_t usual) {
    return cause_with([&](OutOfMemoryBreakdown& oom) { oom.runs = runs, oom.usual_runs = usual; });
  };
  CHECK(with(4, 1) == OomCause::evaluation_with_gradients);
  CHECK(with(3, 1) == OomCause::activations);
  CHECK(with(8, 4) == OomCause::activations);  // a model that is called several times in a step
  CHECK(with(8, 0) == OomCause::activations);  // no backward has come so far
}

TEST_CASE("longer and longer batches are no leak") {
  const auto with = [](std::vector<int64_t> amounts) {
    return cause_with([&](OutOfMemoryBreakdown& oom) {
      oom.held_after_steps = {16 * kGiB, 30 * kGiB, 44 * kGiB, 58 * kGiB};
      oom.amount_of_steps = std::move(amounts);
    });
  };
  CHECK(with({1024, 2048, 3072, 4096}) == OomCause::activations);
  CHECK(with({1024, 2048, 2048, 4096}) == OomCause::leak);
  CHECK(with({0, 0, 0, 0}) == OomCause::leak);
}

TEST_CASE("an evaluation whose memory grows keeps its outputs") {
  const auto with = [](std::vector<int64_t> held,
                       PeakMemoryTrainingPhase phase = PeakMemoryTrainingPhase::no_gradients) {
    return cause_with([&](OutOfMemoryBreakdown& oom) {
      for (int64_t& each : held) each *= kGiB;
      oom.held_before_runs = held;
      oom.phase = phase;
    });
  };
  CHECK(with({16, 30, 44, 58}) == OomCause::kept_outputs);
  CHECK(with({16, 30, 44, 58}, PeakMemoryTrainingPhase::other) == OomCause::kept_outputs);  // outputs are joined
  CHECK(with({16, 30, 44, 58}, PeakMemoryTrainingPhase::forward) == OomCause::activations);
  CHECK(with({16, 30, 44}) == OomCause::evaluation_batch);
  CHECK(with({16, 17, 18, 19}) == OomCause::evaluation_batch);
}

TEST_CASE("a leak whose last allocation is of an evaluation is a leak") {
  CHECK(cause_with([](OutOfMemoryBreakdown& oom) {
          oom.held_after_steps = {16 * kGiB, 30 * kGiB, 44 * kGiB, 58 * kGiB};
          oom.phase = PeakMemoryTrainingPhase::no_gradients;
        }) == OomCause::leak);
}

TEST_CASE("tensors of no known kind are a cause if they were there before the model ran") {
  const auto with = [](int64_t start) {
    return cause_with([&](OutOfMemoryBreakdown& oom) { oom.start_bytes = start; });
  };
  CHECK(with(36 * kGiB) == OomCause::kept_tensors);  // 16 GiB are of known kinds
  CHECK(with(36 * kGiB - 1) == OomCause::activations);
  CHECK(with(0) == OomCause::activations);
}

TEST_CASE("each cause has a name and remedies") {
  CHECK(to_string(OomCause::other_process) == "other_process");
  CHECK(to_string(OomCause::activations) == "activations");
  for (int i = 0; i <= static_cast<int>(OomCause::activations); ++i) {
    const std::vector<std::string> found = remedies(static_cast<OomCause>(i), failure());
    REQUIRE_FALSE(found.empty());
    for (const std::string& each : found) CHECK(each.find('{') == std::string::npos);
  }
}

TEST_CASE("a remedy that is in effect already is not named") {
  OutOfMemoryBreakdown oom = failure();
  const auto first = [&](OomCause cause) { return remedies(cause, oom).front(); };
  CHECK(first(OomCause::fragmentation).starts_with("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
  CHECK(first(OomCause::activations).starts_with("gradient checkpointing"));
  CHECK(first(OomCause::states).starts_with("an optimizer"));
  oom.expandable = oom.checkpointed = true;
  oom.optimizer_bytes = 0;
  CHECK(first(OomCause::fragmentation).starts_with("fewer different sizes"));
  CHECK(first(OomCause::activations).starts_with("a smaller micro-batch"));
  CHECK(first(OomCause::states).starts_with("parameters in bfloat16"));
}

TEST_CASE("a remedy is in the words of the command, then of the model's library, then of PyTorch") {
  OutOfMemoryBreakdown oom = failure();
  const auto first = [&] { return remedies(OomCause::activations, oom).front(); };
  CHECK(first() == "gradient checkpointing (torch.utils.checkpoint.checkpoint around each block)");
  oom.lines[0].file = "/lib/site-packages/timm/models/vit.py";
  CHECK(first() == "gradient checkpointing (model.set_grad_checkpointing())");
  oom.words = {{"batch", "x"}, {"checkpoint", "gradient_checkpointing: true"}};
  CHECK(first() == "gradient checkpointing (gradient_checkpointing: true)");
}

TEST_CASE("bytes of an untrusted folder do not overflow") {
  OutOfMemoryBreakdown oom = failure();
  const AllocatingSourceLine line = {"model.py", 1, "f", "", "logits", int64_t{1} << 53, 1};
  oom.lines.assign(2000, line);
  CHECK(loss_bytes(oom) > 0);
}

}  // namespace memtune::oom_cause_test
