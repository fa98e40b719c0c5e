// What stands above exported keys: what was measured, and of what it is told.
#pragma once

#include <string>
#include <vector>

#include "core/report/report.h"

namespace memtune::trainer {

// Lines that begin with "#", labels in a column.
class Comments {
 public:
  // Nothing for an empty value. No reader of YAML, TOML, Python or shells sees the comment end within it
  // (printable_line), and Python takes none for the file's encoding.
  void put(const std::string& label, const std::string& value);
  void put_circumstances(const report::Report& report);

  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

// "step 320.0 ms (319.5 to 320.5), 1.28 x none; peak 12 GiB, 24 GiB less than none".
std::string measured_text(const result::Row& row, const report::Report& report);

// What writing `row` costs against `asked`: "a step takes 64.0 ms (25.0 %) longer, the peak is 8 GiB lower".
std::string difference_text(const result::Row& asked, const result::Row& row);

std::string gradients_text(const result::Measurement& m);

}  // namespace memtune::trainer
