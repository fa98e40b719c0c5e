// For each trainer, runs with random trials and budgets. The exported config must amount to the best measured strategy
// that the trainer supports and that fits. A second list here, written by hand, has the supported strategies.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "core/answer/trainer/config_check.h"
#include "core/answer/trainer/trainer_batch_and_save_keys.h"
#include "core/base/error.h"
#include "tests/report/sample.h"
#include "tests/support/samples.h"

namespace memtune::round_trip_test {

using namespace memtune;
using report::Report;
using result::TrialResultRow;

namespace {

constexpr int kBlocks = 12, kRuns = 200;

const std::vector<std::string> kStrategies = {"none",
                                              "checkpoint:full",
                                              "checkpoint:full,inputs=host",
                                              "checkpoint:full,inputs=disk",
                                              "checkpoint:full,segment=4",
                                              "checkpoint:full,blocks=0-3",
                                              "checkpoint:full,blocks=2-3",
                                              "checkpoint:every=2",
                                              "checkpoint:every=3",
                                              "checkpoint:every=5",
                                              "checkpoint:every=2,inputs=host",
                                              "checkpoint:every=5,inputs=host",
                                              "checkpoint:op",
                                              "checkpoint:op,save=attention",
                                              "checkpoint:op,save=attention,inputs=host",
                                              "checkpoint:op,save=matmul-all+attention",
                                              "checkpoint:op,save=rms_norm",
                                              "checkpoint:cheap",
                                              "offload:stream",
                                              "offload:group",
                                              "checkpoint:full+offload:stream",
                                              "dear-13"};

using Names = std::set<std::string>;
const Names kPlain = {"none", "checkpoint:full"};

struct Case {
  std::string trainer, file;
  std::map<std::string, std::string> releases;
  Names has;
  std::string own = "";  // the user's config
};

Names with(Names names, const Names& more) {
  names.insert(more.begin(), more.end());
  return names;
}

std::vector<Case> cases() {
  const Names host = {"checkpoint:full,inputs=host"}, dividing = {"checkpoint:every=2", "checkpoint:every=3"},
              all = with(dividing, {"checkpoint:every=5"}),
              moved = {"checkpoint:every=2,inputs=host", "checkpoint:every=5,inputs=host"},
              attention = {"checkpoint:op,save=attention", "checkpoint:op,save=attention,inputs=host"};
  const Names hf = with(with(with(kPlain, host), all), moved);
  return {{"torchtune", "x.yaml", {}, with(with(kPlain, host), dividing)},
          {"axolotl", "x.yaml", {}, with(with(hf, attention), {"checkpoint:op,save=matmul-all+attention"})},
          {"transformers", "x.yaml", {}, hf},
          {"transformers", "x.yaml", {{"", "5.16"}}, with(kPlain, all)},
          {"transformers", "x.yaml", {{"", "5.15"}}, kPlain},
          {"transformers", "x.yaml", {{"", "5.23"}}, hf},
          {"trl", "x.yaml", {}, with(hf, attention)},
          {"ms-swift", "x.yaml", {}, kPlain},
          {"llamafactory", "x.yaml", {}, with(kPlain, host)},
          {"llamafactory", "x.yaml", {}, with(kPlain, host), "gradient_checkpointing: true\n"},
          {"llamafactory", "x.yaml", {}, kPlain, "fsdp_config: {activation_checkpointing: true}\n"},
          {"torchtitan", "x.py", {}, with(kPlain, {"checkpoint:op"})},
          {"torchtitan", "x.toml", {{"", "0.2.2"}}, with(with(kPlain, dividing), {"checkpoint:op"})},
          {"unsloth", "x.py", {}, with(kPlain, host)},
          {"megatron", "x.sh", {}, with(kPlain, {"checkpoint:full,blocks=0-3"})},
          {"deepspeed", "x.json", {}, {"checkpoint:full", "checkpoint:full,inputs=host"}},
          {"accelerate", "x.yaml", {}, kPlain, "distributed_type: FSDP\n"}};
}

class Runs {
 public:
  explicit Runs(unsigned seed) : random_(seed) {}

  // Times and peaks that differ by more than noise.
  Report next() {
    std::vector<std::string> names = kStrategies;
    std::ranges::shuffle(names, random_);
    names.resize(3 + random_() % 10);
    std::vector<int> order(names.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = int(i);
    std::ranges::shuffle(order, random_);
    Report report;
    report.blocks = kBlocks;
    for (size_t i = 0; i < names.size(); ++i)
      report.rows.push_back(
          report::worked(names[i], 100 + 20 * order[i], 0.1, int64_t(8 + random_() % 24) * report::kGiB));
    if (random_() % 2 == 0) report.budget_bytes = int64_t(8 + random_() % 24) * report::kGiB;
    return report;
  }

  size_t any(size_t count) { return random_() % count; }

 private:
  std::mt19937 random_;
};

int64_t peak_of(const TrialResultRow& row) { return row.measurement.peak_bytes.allocated; }

// nullopt: the export has to be refused.
std::optional<std::string> expected(const Report& report, const TrialResultRow& asked, const Names& has) {
  const auto fits = [&](const TrialResultRow& row) {
    return report.budget_bytes == 0 || peak_of(row) <= report.budget_bytes;
  };
  if (has.contains(asked.measurement.strategy))
    return fits(asked) ? std::optional(asked.measurement.strategy) : std::nullopt;
  const TrialResultRow *best = nullptr, *least = nullptr;
  for (const TrialResultRow& row : report.rows) {
    if (!has.contains(row.measurement.strategy)) continue;
    if (!least || peak_of(row) < peak_of(*least)) least = &row;
    if (!fits(row) || (report.budget_bytes == 0 && peak_of(row) > peak_of(asked))) continue;
    if (!best || row.measurement.step_ms.median < best->measurement.step_ms.median) best = &row;
  }
  if (best) return best->measurement.strategy;
  if (!least || report.budget_bytes > 0) return {};
  return least->measurement.strategy;
}

}  // namespace

TEST_CASE("an export amounts to the best measured strategy that the trainer supports and that fits") {
  for (const Case& one : cases()) {
    CAPTURE(one.trainer);
    const trainer::ConfigExportReleasesAndUserConfig settings{one.releases, one.own, one.own.empty() ? "" : one.file};
    Runs runs(7);
    int written = 0, refused = 0;
    for (int run = 0; run < tests::samples(kRuns); ++run) {
      const Report report = runs.next();
      const TrialResultRow& asked = report.rows[runs.any(report.rows.size())];
      CAPTURE(asked.measurement.strategy);
      const std::optional<std::string> wanted = expected(report, asked, one.has);
      if (!wanted) {
        CHECK_THROWS_AS(trainer::export_config(one.trainer, asked, report, settings), UsageError);
        ++refused;
        continue;
      }
      const trainer::ExportedConfig made = trainer::export_config(one.trainer, asked, report, settings);
      const trainer::ConfigProblemsAndEquivalentStrategy read =
          trainer::check_config(one.trainer, made.text, one.file, one.releases, kBlocks);
      CAPTURE(made.text);
      CHECK(read.problems.empty());
      REQUIRE(read.meaning);
      // Several strategies may share the smallest peak; any of them is right.
      const auto row = std::ranges::find(report.rows, read.meaning->strategy,
                                         [](const TrialResultRow& each) { return each.measurement.strategy; });
      REQUIRE(row != report.rows.end());
      const bool same_peak = report.budget_bytes == 0 && peak_of(*row) > peak_of(asked);
      if (!same_peak) CHECK(read.meaning->strategy == *wanted);
      CHECK(one.has.contains(read.meaning->strategy));
      CHECK_FALSE(read.meaning->nearly);
      ++written;
    }
    CHECK(written > tests::samples(kRuns) / 4);
    CHECK(refused > 0);
  }
}

}  // namespace memtune::round_trip_test
