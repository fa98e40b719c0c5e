#include "core/answer/result/oom_cause.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <iterator>
#include <span>
#include <string_view>

#include "core/base/bounds.h"

namespace memtune::result {
namespace {

constexpr int64_t kSizeShare = 100;   // of the device, 1 / this: its size by CUDA's two functions differs less
constexpr int64_t kOthersShare = 20;  // of the device, 1 / this: less may be the driver's own
constexpr int64_t kPiecesShare = 10;  // of the limit, 1 / this: fewer free pieces are usual
constexpr int64_t kCopyShare = 20;    // of the limit, 1 / this: smaller models are not copies of the trained one
constexpr int64_t kLeakShare = 10;    // of what is allocated, 1 / this
constexpr size_t kLeakSteps = 4;      // also runs of an evaluation
constexpr int64_t kManyRuns = 4;      // from lines that no backward follows, and twice what is usual
constexpr int64_t kKeptShare = 4;     // of the whole need, 1 / this
constexpr int64_t kLinesShare = 4;    // of the whole need, 1 / this

constexpr std::array<std::string_view, 6> kLossWords = {"logits",      "lm_head",  "cross_entropy",
                                                        "log_softmax", "nll_loss", "loss_function"};
constexpr std::array<std::string_view, 5> kAttentionWords = {"attn_weights", "attention_probs", "eager_attention",
                                                             "scores", "softmax"};

bool has_any(const AllocatingSourceLine& line, std::span<const std::string_view> words) {
  std::string all = line.text + " " + line.function + " " + line.inner;
  std::ranges::transform(all, all.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(words, [&](std::string_view word) { return all.find(word) != std::string::npos; });
}

bool is_loss(const AllocatingSourceLine& line) { return has_any(line, kLossWords); }
bool is_attention(const AllocatingSourceLine& line) { return has_any(line, kAttentionWords) && !is_loss(line); }

int64_t bytes_of(const OutOfMemoryBreakdown& oom, bool (*of)(const AllocatingSourceLine&)) {
  int64_t sum = of(oom.where) ? oom.requested_bytes : 0;
  for (const AllocatingSourceLine& line : oom.lines)  // of a folder that may be untrusted
    if (of(line)) sum = std::min(kMaxBytes, sum + std::clamp(line.bytes, int64_t{0}, kMaxBytes));
  return sum;
}

int64_t need(const OutOfMemoryBreakdown& oom) { return oom.allocated_bytes + oom.requested_bytes; }

bool by_other_process(const OutOfMemoryBreakdown& oom) {
  const int64_t others = oom.other_processes_bytes.value_or(0);
  return !is_limited(oom) && others >= oom.requested_bytes && others >= oom.total_bytes / kOthersShare &&
         others > oom.reserved_bytes - oom.allocated_bytes;
}

bool by_fragmentation(const OutOfMemoryBreakdown& oom) {
  const int64_t pieces = oom.reserved_bytes - oom.allocated_bytes;
  return pieces >= oom.requested_bytes && pieces >= oom.limit_bytes / kPiecesShare;
}

bool by_second_copy(const OutOfMemoryBreakdown& oom) {
  for (const OomLoadedModel& copy : oom.models)
    for (const OomLoadedModel& other : oom.models)
      if (&copy != &other && !copy.trained && copy.name == other.name && copy.bytes == other.bytes &&
          copy.bytes >= oom.limit_bytes / kCopyShare)
        return true;
  return false;
}

// An optimizer that has float32 copies of all parameters trains the model too, and no model on the device is its own.
bool by_untrained(const OutOfMemoryBreakdown& oom) {
  return std::ranges::any_of(oom.models, &OomLoadedModel::trained) &&
         std::ranges::any_of(oom.models, [&](const OomLoadedModel& model) {
           return model.with_gradients && !model.trained && model.bytes >= oom.limit_bytes / kCopyShare;
         });
}

bool by_gradients_in_evaluation(const OutOfMemoryBreakdown& oom) {
  return oom.evaluating || (oom.usual_runs > 0 && oom.runs >= kManyRuns && oom.runs > 2 * oom.usual_runs);
}

bool by_evaluation(const OutOfMemoryBreakdown& oom) { return oom.phase == PeakMemoryTrainingPhase::no_gradients; }

bool grows(const std::vector<int64_t>& values) {
  return values.size() >= kLeakSteps && std::ranges::adjacent_find(values, std::greater_equal<>()) == values.end();
}

bool grows_by_share(const std::vector<int64_t>& held, const OutOfMemoryBreakdown& oom) {
  return grows(held) && held.back() - held.front() >= oom.allocated_bytes / kLeakShare;
}

// With longer and longer batches, what the script holds of the last one grows as well.
bool by_leak(const OutOfMemoryBreakdown& oom) {
  return grows_by_share(oom.held_after_steps, oom) && !grows(oom.amount_of_steps);
}

bool by_kept_outputs(const OutOfMemoryBreakdown& oom) {
  return (oom.phase == PeakMemoryTrainingPhase::no_gradients || oom.phase == PeakMemoryTrainingPhase::other) &&
         grows_by_share(oom.held_before_runs, oom);
}

bool by_first_update(const OutOfMemoryBreakdown& oom) {
  return oom.phase == PeakMemoryTrainingPhase::update && oom.step == 1;
}

bool by_longer_batch(const OutOfMemoryBreakdown& oom) {
  return amount(oom.largest_batch) > 0 && amount(oom.batch) > amount(oom.largest_batch);
}

bool by_loss(const OutOfMemoryBreakdown& oom) {
  return loss_bytes(oom) >= need(oom) / kLinesShare && loss_bytes(oom) >= attention_bytes(oom) && loss_bytes(oom) > 0;
}

bool by_attention(const OutOfMemoryBreakdown& oom) {
  return attention_bytes(oom) >= need(oom) / kLinesShare && attention_bytes(oom) > 0;
}

bool by_kept_tensors(const OutOfMemoryBreakdown& oom) {
  return kept_bytes(oom) >= need(oom) / kKeptShare && kept_bytes(oom) > 0;
}

bool by_states(const OutOfMemoryBreakdown& oom) {
  return oom.phase == PeakMemoryTrainingPhase::update ||
         oom.parameters_bytes + oom.gradients_bytes + oom.optimizer_bytes > need(oom) / 2;
}

bool by_rest(const OutOfMemoryBreakdown&) { return true; }

struct Rule {
  const char* name;
  bool (*holds)(const OutOfMemoryBreakdown&);
};

// In the order of OomCause.
constexpr Rule kRules[] = {
    {"other_process", by_other_process},
    {"fragmentation", by_fragmentation},
    {"loaded_twice", by_second_copy},
    {"untrained_with_gradients", by_untrained},
    {"evaluation_with_gradients", by_gradients_in_evaluation},
    {"leak", by_leak},
    {"kept_outputs", by_kept_outputs},
    {"evaluation_batch", by_evaluation},
    {"first_update", by_first_update},
    {"longer_batch", by_longer_batch},
    {"loss", by_loss},
    {"attention", by_attention},
    {"kept_tensors", by_kept_tensors},
    {"states", by_states},
    {"activations", by_rest},
};

static_assert(std::size(kRules) == static_cast<size_t>(OomCause::activations) + 1);

const Rule& rule_of(OomCause cause) { return kRules[static_cast<size_t>(cause)]; }

}  // namespace

std::string to_string(OomCause cause) { return rule_of(cause).name; }

OomCause cause_of(const OutOfMemoryBreakdown& oom) {
  const Rule* found = std::ranges::find_if(kRules, [&](const Rule& rule) { return rule.holds(oom); });
  return static_cast<OomCause>(found - std::begin(kRules));
}

int64_t kept_bytes(const OutOfMemoryBreakdown& oom) {
  const int64_t kinds = oom.parameters_bytes + oom.gradients_bytes + oom.optimizer_bytes + oom.buffers_bytes;
  return std::max<int64_t>(0, oom.start_bytes - kinds);
}

int64_t loss_bytes(const OutOfMemoryBreakdown& oom) { return bytes_of(oom, is_loss); }
int64_t attention_bytes(const OutOfMemoryBreakdown& oom) { return bytes_of(oom, is_attention); }

bool is_limited(const OutOfMemoryBreakdown& oom) {
  return oom.limit_bytes < oom.total_bytes - oom.total_bytes / kSizeShare;
}

int64_t amount(const OomBatchRowsAndTokens& batch) { return batch.positions > 0 ? batch.positions : batch.rows; }

}  // namespace memtune::result
