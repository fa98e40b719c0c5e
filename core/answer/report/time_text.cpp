#include "core/answer/report/time_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/answer/result/time_advice.h"
#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/text.h"

namespace memtune::report {

std::string time_text(const Report& report) {
  const auto worked = [](const result::TrialResultRow& each) { return result::worked(each.measurement); };
  const auto working = std::ranges::count_if(report.rows, worked);
  const auto row = std::ranges::find_if(report.rows, [&](const result::TrialResultRow& each) {
    return worked(each) && (working == 1 || each.recommended);
  });
  if (row == report.rows.end() || !row->measurement.time_shares) return "";
  const result::TrainingPhaseTimeShares& shares = *row->measurement.time_shares;
  std::vector<std::string> parts;
  for (const result::TimeShareNameAndMemberPointer& kind : result::kTimeKinds)
    if (const long percent = std::lround(100 * shares.*kind.share); percent > 0)
      parts.push_back(std::string(kind.name) + " " + std::to_string(percent) + " %");
  std::string text = join(parts, ", ");
  for (const std::string& line : result::time_advice(shares)) text += "; " + line;
  return text;
}

}  // namespace memtune::report
