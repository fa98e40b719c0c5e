// Each cause has a case that another rule answers if its own is missing.
#include "core/answer/result/oom_cause.h"

#include <doctest/doctest.h>

namespace memtune::oom_cause_test {

using namespace memtune::result;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// Activations of a batch that is too large, on a device of 80 GiB.
OutOfMemory failure() {
  OutOfMemory oom;
  oom.step = 3;
  oom.phase = MemoryPhase::forward;
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
  OutOfMemory oom = failure();
  change(oom);
  return cause_of(oom);
}

}  // namespace

TEST_CASE("activations are the cause if nothing else is") { CHECK(cause_of(failure()) == OomCause::activations); }

TEST_CASE("other processes are a cause if they hold what was asked for") {
  const auto with = [](int64_t others, int64_t limit = 80 * kGiB) {
    return cause_with([&](OutOfMemory& oom) {
      oom.other_processes_bytes = others;
      oom.limit_bytes = limit;
    });
  };
  CHECK(with(4 * kGiB) == OomCause::other_process);
  CHECK(with(4 * kGiB - 1) == OomCause::activations);
  CHECK(with(40 * kGiB, 79 * kGiB) == OomCause::activations);  // a limit of its own
  CHECK(with(40 * kGiB, 80 * kGiB - kGiB / 2) == OomCause::other_process);
  CHECK(cause_with([](OutOfMemory& oom) {
          oom.requested_bytes = kGiB / 64;
          oom.other_processes_bytes = 3 * kGiB;  // may be the driver's
        }) == OomCause::activations);
  CHECK(cause_with([](OutOfMemory& oom) { oom.other_processes_bytes.reset(); }) == OomCause::activations);
}

TEST_CASE("fragmentation is the cause if as much was reserved and not allocated") {
  const auto with = [](int64_t pieces, int64_t others = 0) {
    return cause_with([&](OutOfMemory& oom) {
      oom.allocated_bytes = oom.reserved_bytes - pieces;
      oom.other_processes_bytes = others;
    });
  };
  CHECK(with(4 * kGiB) == OomCause::fragmentation);
  CHECK(with(4 * kGiB - 1) == OomCause::activations);
  CHECK(with(5 * kGiB, 4 * kGiB) == OomCause::fragmentation);  // the larger of both
  CHECK(with(4 * kGiB, 5 * kGiB) == OomCause::other_process);
  CHECK(cause_with([](OutOfMemory& oom) {
          oom.requested_bytes = kGiB / 64;
          oom.allocated_bytes = oom.reserved_bytes - 3 * kGiB;  // growing segments would not get far
        }) == OomCause::activations);
  CHECK(cause_with([](OutOfMemory& oom) {
          oom.requested_bytes = kGiB / 64;
          oom.allocated_bytes = oom.reserved_bytes - 4 * kGiB;
        }) == OomCause::fragmentation);
}

TEST_CASE("a second copy of the model is a cause if it is not trained") {
  const auto with = [](const ModelOnDevice& second) {
    return cause_with([&](OutOfMemory& oom) { oom.models.push_back(second); });
  };
  CHECK(with({"Llama", 4 * kGiB, false}) == OomCause::loaded_twice);
  CHECK(with({"Llama", 4 * kGiB, true}) == OomCause::activations);
  CHECK(with({"Teacher", 4 * kGiB, false}) == OomCause::activations);
  CHECK(with({"Llama", 2 * kGiB, false}) == OomCause::activations);
  CHECK(cause_with([](OutOfMemory& oom) {
          oom.models = {{"Head", kGiB, true}, {"Head", kGiB, false}};  // small
        }) == OomCause::activations);
}

TEST_CASE("an evaluation has two causes") {
  CHECK(cause_with([](OutOfMemory& oom) { oom.evaluating = true; }) == OomCause::evaluation_with_gradients);
  CHECK(cause_with([](OutOfMemory& oom) { oom.phase = MemoryPhase::no_gradients; }) == OomCause::evaluation_batch);
}

TEST_CASE("memory that grows with each step is a leak") {
  const auto with = [](std::vector<int64_t> held) {
    return cause_with([&](OutOfMemory& oom) {
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
    return cause_with([&](OutOfMemory& oom) {
      oom.phase = MemoryPhase::update;
      oom.step = step;
    });
  };
  CHECK(with(1) == OomCause::first_update);
  CHECK(with(2) == OomCause::states);
}

TEST_CASE("a batch that is larger than all before is a cause") {
  CHECK(cause_with([](OutOfMemory& oom) { oom.batch = {4, 8192, 8192}; }) == OomCause::longer_batch);
  CHECK(cause_with([](OutOfMemory& oom) {
          oom.batch = {5, 0, 0};
          oom.largest_batch = {4, 0, 0};
        }) == OomCause::longer_batch);
  CHECK(cause_with([](OutOfMemory& oom) {
          oom.batch = {8, 4096, 4096};
          oom.largest_batch = {2, 8192, 8192};
        }) == OomCause::activations);
  CHECK(cause_with([](OutOfMemory& oom) { oom.largest_batch = {}; }) == OomCause::activations);  // the first one
}

TEST_CASE("logits and scores are a cause if their lines hold a quarter of the need") {
  const auto with = [](const char* text, const char* function, const char* inner, int64_t bytes) {
    return cause_with([&](OutOfMemory& oom) {
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
  CHECK(cause_with([](OutOfMemory& oom) {
          oom.requested_bytes = 30 * kGiB;
          oom.allocated_bytes = 60 * kGiB;
          oom.reserved_bytes = 60 * kGiB;
          oom.where.text = "logits = self.lm_head(hidden)";
        }) == OomCause::loss);
}

TEST_CASE("states are the cause if they are more than half of the need") {
  CHECK(cause_with([](OutOfMemory& oom) { oom.optimizer_bytes = 33 * kGiB; }) == OomCause::states);
  CHECK(cause_with([](OutOfMemory& oom) { oom.optimizer_bytes = 32 * kGiB; }) == OomCause::activations);
}

TEST_CASE("each cause has a name and a remedy") {
  CHECK(to_string(OomCause::other_process) == "other_process");
  CHECK(to_string(OomCause::activations) == "activations");
  CHECK(remedy(OomCause::evaluation_with_gradients, {}) == "evaluate under torch.no_grad()");
  OutOfMemory oom;
  CHECK(remedy(OomCause::fragmentation, oom) == "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
  oom.expandable = true;
  CHECK(remedy(OomCause::fragmentation, oom).find("expandable_segments") == std::string::npos);
}

TEST_CASE("bytes of an untrusted folder do not overflow") {
  OutOfMemory oom = failure();
  const MemoryLine line = {"model.py", 1, "f", "", "logits", int64_t{1} << 53, 1};
  oom.lines.assign(2000, line);
  CHECK(loss_bytes(oom) > 0);
}

}  // namespace memtune::oom_cause_test
