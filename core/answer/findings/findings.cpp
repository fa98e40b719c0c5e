#include "core/answer/findings/findings.h"

#include <algorithm>

#include "core/answer/findings/finding_rules.h"
#include "core/answer/result/effect.h"

namespace memtune::findings {

std::string to_string(Severity severity) {
  switch (severity) {
    case Severity::note: return "note";
    case Severity::advice: return "advice";
    case Severity::problem: return "problem";
  }
  return "?";
}

std::string advice_text(const Finding& finding) {
  return finding.alternative_strategy.empty() ? finding.advice
                                              : finding.advice + " (" + finding.alternative_strategy + ")";
}

std::string sentence(const Finding& finding) {
  return finding.advice.empty() ? finding.what : finding.what + ": " + advice_text(finding);
}

std::vector<Finding> find(const trace::Trace& trace, const result::TrialMeasurement& measurement,
                          const plan::Plan* plan) {
  if (had_no_effect(measurement)) return {};
  const TrialTraceMeasurementAndPlan subject(trace, measurement, plan);
  std::vector<Finding> findings;
  for (const Rule rule : all_rules()) {
    if (std::optional<Finding> finding = rule(subject)) findings.push_back(std::move(*finding));
  }
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    if (a.of_figures != b.of_figures) return b.of_figures;
    return a.severity != b.severity ? a.severity > b.severity : a.weight > b.weight;
  });
  return findings;
}

void mark_failed_alternatives(std::span<const result::TrialResultRow> rows, const result::TrialResultRow& of,
                              std::vector<Finding>& findings) {
  for (Finding& finding : findings)
    for (const result::TrialResultRow& row : rows) {
      const result::TrialMeasurement& tried = row.measurement;
      if (finding.alternative_strategy.empty() || tried.strategy != finding.alternative_strategy ||
          !same_axes(row, of) || worked(row))
        continue;
      finding.advice = finding.alternative_strategy + " was tried and ended in " + to_string(tried.outcome);
      finding.alternative_strategy = "";
    }
}

}  // namespace memtune::findings
