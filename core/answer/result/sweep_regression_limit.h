// Regression limits between two sweeps, for pipelines that must fail on them (diff --fail-if).
#pragma once

#include <string>
#include <vector>

#include "core/answer/result/diff.h"
#include "core/answer/result/metrics.h"

namespace memtune::result {

// A limit on the change from A to B: "peak>+2%", "step>+1.5%", "peak>+512MiB", "step>+3ms", "hidden<-5%".
class SweepRegressionLimit {
 public:
  explicit SweepRegressionLimit(const std::string& text);  // throws UsageError that shows valid forms

  // Describes each trial that worked in both sweeps and exceeds the limit: "offload:stream: peak +3.1 %, limit +2 %".
  std::vector<std::string> broken_by(const std::vector<SweepDiffRow>& rows) const;

 private:
  double change(const SweepDiffRow& row) const;

  std::string text_, name_;
  const MetricDefinition* metric_ = nullptr;
  bool above_ = true;     // true for >, false for <
  bool relative_ = true;  // as a share of A; for `hidden` in percentage points
  double bound_ = 0;      // a share, ms or bytes
};

}  // namespace memtune::result
