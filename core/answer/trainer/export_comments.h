// Builds the comments above exported keys: the measurement behind them and its circumstances.
#pragma once

#include <string>
#include <vector>

#include "core/answer/report/report.h"

namespace memtune::trainer {

// Lines that begin with "#", with labels aligned in a column.
class ExportComments {
 public:
  // Adds nothing for an empty value. Control characters are replaced (printable_line), so that no reader of YAML, TOML,
  // Python or shells sees the comment end early. Python does not read the text as an encoding declaration.
  void put(const std::string& label, const std::string& value);
  void put_circumstances(const report::Report& report);

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

// "step 320.0 ms (319.5 to 320.5), 1.28 x none; peak 12 GiB, 24 GiB less than none".
std::string measured_text(const result::TrialResultRow& row, const report::Report& report);

// The environment that the row needs beside its keys; "": none.
std::string environment_text(const result::TrialResultRow& row);

// The cost of writing `row` instead of `asked`: "a step takes 64.0 ms (25.0 %) longer, the peak is 8 GiB lower".
std::string difference_text(const result::TrialResultRow& asked, const result::TrialResultRow& row);

std::string gradients_text(const result::TrialMeasurement& m);

}  // namespace memtune::trainer
