#include "core/answer/report/explanation.h"

#include <cmath>
#include <cstdlib>

#include "core/answer/report/words.h"
#include "core/answer/result/rounds.h"
#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::report {
namespace {

void add_link(const Report& report, std::vector<ReportLabelAndExplanation>& terms) {
  for (const result::TrialResultRow& row : report.rows) {
    const result::StepHostDeviceCopyStats& t = row.measurement.transfer;
    if (t.link_out_gb_per_s <= 0 || t.link_in_gb_per_s <= 0) continue;
    terms.push_back({"Copy bandwidth", fixed(t.link_out_gb_per_s, 1) + " GB/s out, " + fixed(t.link_in_gb_per_s, 1) +
                                           " GB/s in, measured idle with pinned memory in the same process"});
    return;
  }
}

// "2026-11-22T07:30:00Z" as "2026-11-22 07:30 UTC".
std::string for_people(const std::string& written) {
  if (written.size() != 20 || written[10] != 'T') return written;
  return written.substr(0, 10) + " " + written.substr(11, 5) + " UTC";
}

std::string peak_meaning(const Report& report) {
  if (report.emulated) return "the most bytes that tensors held, counted by an allocator on the CPU";
  if (has_resident_peaks(report))
    return "the most resident memory of a process, the interpreter and libraries included";
  return "the most bytes that tensors held in a step, by the caching allocator";
}

}  // namespace

std::vector<ReportLabelAndExplanation> meanings(const std::vector<TableColumn>& columns) {
  std::vector<ReportLabelAndExplanation> terms;
  for (const TableColumn& column : columns) {
    if (!column.meaning.empty()) terms.push_back({trim(column.head), column.meaning});
  }
  return terms;
}

std::vector<ReportLabelAndExplanation> method(const Report& report) {
  std::vector<ReportLabelAndExplanation> terms = {{"Model", report.model}, {"Device", device_text(report)}};
  if (!report.settings.empty()) terms.push_back({"Settings", report.settings});
  if (report.budget_bytes > 0)
    terms.push_back({"Budget", format_bytes(report.budget_bytes) + " of the device's memory"});
  terms.push_back(
      {"Trials", "each a process of its own that trains real steps; times and peaks are of steps after warm-up"});
  terms.push_back({"Step time", "the median of whole steps; ± is half of the 95 % bootstrap interval of that median"});
  terms.push_back({"Peak", peak_meaning(report)});
  terms.push_back(
      {"Hidden", "the share of the time of copies during which the device also computed; exposed is the rest"});
  if (is_of_commands(report))
    terms.push_back({"Losses", "of the first steps, compared with those of " + report.reference +
                                   "; a variant with other losses is not recommended"});
  else
    terms.push_back({"Gradients", "loss and gradients compared with those of " + report.reference +
                                      " before anything was timed, bit for bit where deterministic kernels exist"});
  add_link(report, terms);
  for (ReportLabelAndExplanation& term : circumstances(report.origin)) terms.push_back(std::move(term));
  return terms;
}

std::vector<ReportLabelAndExplanation> circumstances(const trace::RunProvenance& origin) {
  std::vector<ReportLabelAndExplanation> terms;
  const auto add = [&](const char* term, const std::string& text) {
    if (!text.empty()) terms.push_back({term, text});
  };
  std::vector<std::string> versions;
  if (!origin.memtune.empty()) versions.push_back("memtune " + origin.memtune);
  if (!origin.torch.empty()) versions.push_back("PyTorch " + origin.torch);
  if (!origin.driver.empty()) versions.push_back("driver " + origin.driver);
  add("Versions", join(versions, ", "));
  add("Machine", origin.machine);
  add("Date", for_people(origin.written));
  return terms;
}

std::string headline(const Report& report, const result::TrialResultRow& row) {
  const result::TrialMeasurement& m = row.measurement;
  std::string time = fixed(m.step_ms.median, digits_for(m.step_ms.median)) + " ms a step";
  const bool on_device = m.peak_bytes.device > 0;
  std::string peak = format_bytes(m.peak_bytes.allocated) + (on_device ? " allocated at the peak" : " at the peak");
  const result::TrialResultRow* base = reference_row(report, row);
  if (base && base != &row && base->measurement.step_ms.median > 0) {
    time += " (" + fixed(result::WorkNormalizedTrialComparator(report.rows).ratio(row, *base).value, 2) + " × " +
            report.reference + ")";
    const int64_t more = m.peak_bytes.allocated - base->measurement.peak_bytes.allocated;
    if (more != 0)
      peak += " (" + format_bytes(std::abs(more)) + (more < 0 ? " less than " : " more than ") + report.reference + ")";
  }
  return time + ", " + peak + (on_device ? ", " + format_bytes(m.peak_bytes.device) + " on the device" : "");
}

std::string peak_note(int64_t curve_bytes, int64_t measured_bytes) {
  const auto curve = static_cast<double>(curve_bytes), measured = static_cast<double>(measured_bytes);
  if (curve <= 0 || measured <= 0 || std::abs(curve - measured) <= 0.01 * measured) return "";
  return "The measured peak is " + format_bytes(measured_bytes) +
         ": the allocator reports it for the measured steps; the curve shows traced steps, sampled when the trace read "
         "memory";
}

}  // namespace memtune::report
