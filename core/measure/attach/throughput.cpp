#include "core/measure/attach/throughput.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/median.h"

namespace memtune::attach {
namespace {

constexpr double kLeastPadding = 0.005;  // less is no news

// Rows and tokens of a rank in one step; 0: unknown.
struct Fed {
  double rows = 0, tokens = 0;
};

// Of the batches of the measured steps. Empty if one of them is unknown.
std::vector<double> sizes_of(const TrainingProcessRecords& rank, std::vector<int64_t> StepRecord::*sizes) {
  std::vector<double> all;
  for (const StepRecord& step : rank.steps)
    if (step.phase == MeasurementPhase::measured) all.insert(all.end(), (step.*sizes).begin(), (step.*sizes).end());
  return all.empty() || std::ranges::min(all) <= 0 ? std::vector<double>() : all;
}

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// If tokens vary, a step with more of them takes longer.
bool tokens_vary(const ProcessRecordsByRank& team) {
  return std::ranges::any_of(team.ranks, [](const TrainingProcessRecords* rank) {
    const std::vector<double> tokens = sizes_of(*rank, &StepRecord::tokens);
    return !tokens.empty() && std::ranges::min(tokens) < std::ranges::max(tokens);
  });
}

// Batches per step. One backward may use several batches, if median and mean of the returned ones agree; or several
// backwards share a batch. With prefetch in bursts the median may be 0, and the mean is used.
double batches_a_step(const TrainingProcessRecords& rank) {
  std::vector<double> backwards, left;
  for (const StepRecord& step : rank.steps) {
    if (step.phase != MeasurementPhase::measured) continue;
    backwards.push_back(static_cast<double>(step.rows.size()));
    left.push_back(static_cast<double>(step.batches));
  }
  double mean = 0;
  for (const double count : left) mean += count / static_cast<double>(left.size());
  if (mean <= 0) return 0;
  const double usual = median(std::move(left)), of_a_step = median(std::move(backwards));
  if (of_a_step <= 0) return 0;
  const double each = std::round(std::min(usual, mean) / of_a_step);
  return each > 1 ? each * of_a_step : of_a_step / std::max(1.0, std::round(of_a_step / (usual > 0 ? usual : mean)));
}

Fed fed(const TrainingProcessRecords& rank) {
  const double batches = batches_a_step(rank);
  return {batches * median(sizes_of(rank, &StepRecord::rows)), batches * mean(sizes_of(rank, &StepRecord::tokens))};
}

// Part of the positions that are padding, in all measured steps.
double padding_share(const ProcessRecordsByRank& team) {
  double tokens = 0, positions = 0;
  for (const TrainingProcessRecords* rank : team.ranks)
    for (const StepRecord& step : rank->steps) {
      if (step.phase != MeasurementPhase::measured) continue;
      for (const int64_t count : step.tokens) tokens += static_cast<double>(count);
      for (const int64_t count : step.positions) positions += static_cast<double>(count);
    }
  return positions > tokens ? 1 - tokens / positions : 0;
}

// Lengths of the rows of all measured batches. Texts of one length and rows without tokens have none.
std::string lengths_text(const ProcessRecordsByRank& team) {
  int64_t shortest = std::numeric_limits<int64_t>::max(), longest = 0, at = 0;
  for (const TrainingProcessRecords* rank : team.ranks)
    for (const StepRecord& step : rank->steps)
      for (size_t i = 0; step.phase == MeasurementPhase::measured && i < step.rows.size(); ++i) {
        if (step.rows[i] <= 0 || step.positions[i] <= 0) continue;
        const int64_t length = step.positions[i] / step.rows[i];
        shortest = std::min(shortest, length);
        if (length > longest) longest = length, at = step.number;
      }
  if (longest <= shortest) return "";
  return "rows have " + std::to_string(shortest) + " to " + std::to_string(longest) +
         " positions, the longest in step " + std::to_string(at) + ": longer ones later may need more memory";
}

// True if two ranks got the same first batch, as tensor and pipeline parallel ranks do.
bool fed_the_same(const ProcessRecordsByRank& team) {
  std::set<int64_t> seen;
  return std::ranges::any_of(
      team.ranks, [&](const TrainingProcessRecords* rank) { return rank->data && !seen.insert(*rank->data).second; });
}

}  // namespace

void fill_throughput(const ProcessRecordsByRank& team, result::TrialMeasurement& to, std::vector<std::string>& notes) {
  if (team.ranks.empty() || to.step_ms.median <= 0) return;
  Fed sum;
  bool rows = true, tokens = true;
  for (const TrainingProcessRecords* rank : team.ranks) {
    const Fed share = fed(*rank);
    rows = rows && share.rows > 0, tokens = tokens && share.tokens > 0;
    sum.rows += share.rows, sum.tokens += share.tokens;
  }
  if (!rows) {
    notes.push_back(
        "how many samples a step has is not known: the script uses no DataLoader, and what its model is "
        "given was not seen");
    return;
  }
  if (fed_the_same(team)) {
    notes.push_back("ranks were fed the same batches: how many samples a step has is not known");
    return;
  }
  to.samples_per_s = 1000 * sum.rows / to.step_ms.median;
  if (!tokens) return;
  to.tokens_per_s = 1000 * sum.tokens / (tokens_vary(team) ? mean(to.step_ms.samples) : to.step_ms.median);
  if (std::string lengths = lengths_text(team); !lengths.empty()) notes.push_back(std::move(lengths));
  if (const double padding = padding_share(team); padding >= kLeastPadding)
    notes.push_back("padding is " + std::to_string(std::lround(100 * padding)) +
                    " % of the positions that the model is given: tokens are counted without it");
}

}  // namespace memtune::attach
