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
  return finding.instead.empty() ? finding.advice : finding.advice + " (" + finding.instead + ")";
}

std::string sentence(const Finding& finding) {
  return finding.advice.empty() ? finding.what : finding.what + ": " + advice_text(finding);
}

std::vector<Finding> find(const trace::Trace& trace, const result::Measurement& measurement, const plan::Plan* plan) {
  if (did_nothing(measurement)) return {};
  const Subject subject(trace, measurement, plan);
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

void tell_what_failed(std::span<const result::Row> rows, const result::Row& of, std::vector<Finding>& findings) {
  for (Finding& finding : findings)
    for (const result::Row& row : rows) {
      const result::Measurement& tried = row.measurement;
      if (finding.instead.empty() || tried.strategy != finding.instead || !same_axes(row, of) || worked(row)) continue;
      finding.advice = finding.instead + " was tried and ended in " + to_string(tried.outcome);
      finding.instead = "";
    }
}

}  // namespace memtune::findings
