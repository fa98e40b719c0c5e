// The numbers of a measurement: name for scripts, name for people, unit and format. The table, the page, CSV, limits
// and the viewer use these definitions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/record/measurement/trial_result_row.h"

namespace memtune::result {

enum class MetricUnit { ms, bytes, share, count, per_second, gb_per_second };
bool is_whole(MetricUnit unit);  // bytes and counts

struct MetricDefinition {
  const char* key;   // "exposed_ms": CSV column, for scripts
  const char* head;  // "exposed ms": table column, for people; the unit is appended for bytes and shares
  MetricUnit unit;
  int digits;                              // decimals; kForLeast: as many as the smallest value of a column needs
  double (*get)(const TrialMeasurement&);  // returns 0 if not measured
  bool (*known)(const TrialMeasurement&);  // whether the number means anything, unlike an overlap share without copies

  static constexpr int kForLeast = -1;
};

std::span<const MetricDefinition> metrics();  // in CSV order
const MetricDefinition& metric(std::string_view key);
// Tokens per second if all rows count tokens, else samples per second.
const MetricDefinition& rate_metric(std::span<const TrialResultRow* const> rows);

inline constexpr const char* kNothing = "–";

// A figure of several rows, with one unit and number of decimals for all.
class MetricColumnFormatter {
 public:
  MetricColumnFormatter(const MetricDefinition& metric, std::span<const TrialResultRow* const> rows);

  std::string head() const;                           // "step ms", "peak GiB", "hidden %"
  double in_unit(double raw) const;                   // converts ms or bytes to the unit of the head
  double value(const TrialMeasurement& m) const;      // in the unit of the head
  std::string text(const TrialMeasurement& m) const;  // kNothing if not known
  std::string text(double value) const;               // `value` is in the unit of the head
  const char* byte_unit() const { return byte_unit_; }

 private:
  const MetricDefinition& metric_;
  const char* byte_unit_ = "";
  double scale_ = 1;
  int digits_ = 0;
};

}  // namespace memtune::result
