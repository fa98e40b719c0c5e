#include <cmath>
#include <limits>
#include <regex>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/report/diff.h"
#include "core/report/words.h"

namespace memtune::report {
namespace {

constexpr const char* kForms = "; it takes peak>+2%, peak>+512MiB, step>+1.5%, step>+3ms, exposed>+2ms, hidden<-5%";

double figure_of(const std::string& figure, const result::Measurement& m) {
  if (figure == "peak") return static_cast<double>(m.peak_bytes.allocated);
  if (figure == "step") return m.step_ms.median;
  return figure == "exposed" ? m.transfer.exposed_ms : m.transfer.hidden;
}

std::string signed_text(double value, const std::string& text) { return (value < 0 ? "-" : "+") + text; }

}  // namespace

DiffLimit::DiffLimit(const std::string& text) : text_(text) {
  static const std::regex kForm(R"(\s*(peak|step|hidden|exposed)\s*([<>])\s*([+-]?)(\d+(?:\.\d*)?)\s*(\S*)\s*)");
  std::smatch match;
  if (!std::regex_match(text, match, kForm)) throw UsageError("'" + text + "' is no limit" + kForms);
  figure_ = match[1];
  above_ = match[2] == ">";
  const std::string number = match[4], unit = match[5];
  const bool bytes = figure_ == "peak", time = figure_ == "step" || figure_ == "exposed";
  relative_ = unit == "%";
  if (relative_) {
    bound_ = parse_number(number, "the limit") / 100;
  } else if (time && unit == "ms") {
    bound_ = parse_number(number, "the limit");
  } else if (bytes && !unit.empty()) {
    bound_ = static_cast<double>(parse_bytes(number + unit));
  } else {
    throw UsageError("'" + text + "': " + figure_ + " has no limit in '" + unit + "'" + kForms);
  }
  if (match[3] == "-") bound_ = -bound_;
}

double DiffLimit::change(const DiffRow& row) const {
  const double a = figure_of(figure_, row.a->measurement), b = figure_of(figure_, row.b->measurement);
  if (!relative_ || figure_ == "hidden" || a == b) return b - a;
  return a > 0 ? b / a - 1 : std::numeric_limits<double>::infinity();
}

std::vector<std::string> DiffLimit::broken_by(const std::vector<DiffRow>& rows) const {
  std::vector<std::string> lines;
  for (const DiffRow& row : rows) {
    if (!row.worked_in_both()) continue;
    const double by = change(row);
    if (above_ ? by <= bound_ : by >= bound_) continue;
    const std::string amount = relative_           ? fixed(std::abs(100 * by), 1) + " %"
                               : figure_ == "peak" ? format_bytes(static_cast<int64_t>(std::abs(by)))
                                                   : ms_text(std::abs(by));
    lines.push_back(label(*row.a) + ": " + figure_ + " " + signed_text(by, amount) + ", limit " + text_);
  }
  return lines;
}

}  // namespace memtune::report
