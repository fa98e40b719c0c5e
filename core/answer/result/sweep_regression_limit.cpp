#include "core/answer/result/sweep_regression_limit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <regex>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::result {
namespace {

constexpr const char* kForms = "; it takes peak>+2%, peak>+512MiB, step>+1.5%, step>+3ms, exposed>+2ms, hidden<-5%";

// Names in limits, and the keys of the figures.
constexpr struct {
  const char *name, *key;
} kNames[] = {{"peak", "peak_allocated_bytes"}, {"step", "step_ms"}, {"exposed", "exposed_ms"}, {"hidden", "hidden"}};

const MetricDefinition& figure_named(const std::string& name) {
  return metric(std::ranges::find_if(kNames, [&](const auto& each) { return each.name == name; })->key);
}

std::string signed_text(double value, const std::string& text) { return (value < 0 ? "-" : "+") + text; }

}  // namespace

SweepRegressionLimit::SweepRegressionLimit(const std::string& text) : text_(text) {
  static const std::regex kForm(R"(\s*(peak|step|hidden|exposed)\s*([<>])\s*([+-]?)(\d+(?:\.\d*)?)\s*(\S*)\s*)");
  std::smatch match;
  if (!std::regex_match(text, match, kForm)) throw UsageError("'" + text + "' is no limit" + kForms);
  name_ = match[1];
  metric_ = &figure_named(name_);
  above_ = match[2] == ">";
  const std::string number = match[4], unit = match[5];
  relative_ = unit == "%";
  if (relative_) {
    bound_ = parse_number(number, "the limit") / 100;
  } else if (metric_->unit == MetricUnit::ms && unit == "ms") {
    bound_ = parse_number(number, "the limit");
  } else if (metric_->unit == MetricUnit::bytes && !unit.empty()) {
    bound_ = static_cast<double>(parse_bytes(number + unit));
  } else {
    throw UsageError("'" + text + "': " + name_ + " has no limit in '" + unit + "'" + kForms);
  }
  if (match[3] == "-") bound_ = -bound_;
}

double SweepRegressionLimit::change(const SweepDiffRow& row) const {
  const double a = metric_->get(row.a->measurement), b = metric_->get(row.b->measurement);
  if (!relative_ || metric_->unit == MetricUnit::share || a == b) return b - a;
  return a > 0 ? b / a - 1 : std::numeric_limits<double>::infinity();
}

std::vector<std::string> SweepRegressionLimit::broken_by(const std::vector<SweepDiffRow>& rows) const {
  std::vector<std::string> lines;
  for (const SweepDiffRow& row : rows) {
    if (!row.worked_in_both()) continue;
    const double by = change(row);
    if (above_ ? by <= bound_ : by >= bound_) continue;
    const std::string amount = relative_                            ? fixed(std::abs(100 * by), 1) + " %"
                               : metric_->unit == MetricUnit::bytes ? format_bytes(static_cast<int64_t>(std::abs(by)))
                                                                    : ms_text(std::abs(by));
    lines.push_back(label(*row.a) + ": " + name_ + " " + signed_text(by, amount) + ", limit " + text_);
  }
  return lines;
}

}  // namespace memtune::result
