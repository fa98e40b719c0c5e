// What the second of two sweeps may not do to the first, for pipelines that have to fail then.
#pragma once

#include <string>
#include <vector>

#include "core/result/diff.h"
#include "core/result/figures.h"

namespace memtune::result {

// "peak>+2%", "step>+1.5%", "peak>+512MiB", "step>+3ms", "hidden<-5%": what B may not do to A.
class DiffLimit {
 public:
  explicit DiffLimit(const std::string& text);  // UsageError that shows valid forms

  // Trials that worked in both and go beyond the limit, a line each: "offload:stream: peak +3.1 %, limit +2 %".
  std::vector<std::string> broken_by(const std::vector<DiffRow>& rows) const;

 private:
  double change(const DiffRow& row) const;

  std::string text_, name_;
  const Figure* figure_ = nullptr;
  bool above_ = true;     // > ; else <
  bool relative_ = true;  // in shares of A; for `hidden` in points
  double bound_ = 0;      // a share, ms or bytes
};

}  // namespace memtune::result
