// Two sweeps beside each other: what became faster, smaller, wrong. Trials are the same when strategy, batch and
// sequence are.
#pragma once

#include <string>
#include <vector>

#include "core/report/report.h"

namespace memtune::report {

struct DiffRow {
  const Row* a = nullptr;  // null: only in B
  const Row* b = nullptr;  // null: only in A

  const Row& any() const { return a ? *a : *b; }
  bool in_both() const { return a && b; }
  bool worked_in_both() const;
  bool broke() const;  // worked in A, and in B not or was not tried
};

// In A's order as people read it (ranked), then what only B has. Refers to both reports.
std::vector<DiffRow> diff(const Report& a, const Report& b);

// The columns step ms, peak and hidden as "A → B +2.1 %", losses and gradients where they differ; ends with
// a line feed.
std::string diff_table(const std::vector<DiffRow>& rows);
// {"trials": [{"strategy": .., "in": "both", "broke": .., "a": {..}, "b": {..}, "step_ms": .., "peak_bytes": .., ...}]}
// with B less A for figures.
std::string diff_json(const std::vector<DiffRow>& rows);

// "peak>+2%", "step>+1.5%", "peak>+512MiB", "step>+3ms", "hidden<-5%": what B may not do to A.
class DiffLimit {
 public:
  explicit DiffLimit(const std::string& text);  // UsageError that shows valid forms

  // Trials that worked in both and go beyond the limit, a line each: "offload:stream: peak +3.1 %, limit +2 %".
  std::vector<std::string> broken_by(const std::vector<DiffRow>& rows) const;

 private:
  double change(const DiffRow& row) const;

  std::string text_, figure_;
  bool above_ = true;     // > ; else <
  bool relative_ = true;  // in shares of A; for `hidden` in points
  double bound_ = 0;      // a share, ms or bytes
};

}  // namespace memtune::report
