#include "core/answer/report/html/html.h"

#include <algorithm>

#include "core/answer/report/alternatives.h"
#include "core/answer/report/chart/bar_charts.h"
#include "core/answer/report/chart/flame_graph.h"
#include "core/answer/report/chart/memory_chart.h"
#include "core/answer/report/chart/pareto_chart.h"
#include "core/answer/report/chart/svg_writer.h"
#include "core/answer/report/explanation.h"
#include "core/answer/report/gain_over_user_config.h"
#include "core/answer/report/html/html_style.h"
#include "core/answer/report/memory_owners.h"
#include "core/answer/report/oom_text.h"
#include "core/answer/report/prediction.h"
#include "core/answer/report/ranks.h"
#include "core/answer/report/saving.h"
#include "core/answer/report/text/columns.h"
#include "core/answer/report/time_text.h"
#include "core/answer/report/words.h"
#include "core/answer/result/work_normalized_trial_comparator.h"
#include "core/base/bytes.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::report {
namespace {

using result::TrialResultRow;

const char* class_of(ReportTextHighlightKind paint) {
  static constexpr const char* kClasses[] = {"", "strong", "dim", "good", "bad", "doubtful"};  // in the order of Paint
  return kClasses[static_cast<int>(paint)];
}

// Strategy names have no blanks, so narrow columns may break them after a separator.
std::string breakable(const std::string& text) {
  std::string result;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find_first_of(":,+", start), text.size() - 1) + 1;
    result += escape(text.substr(start, end - start)) + (end < text.size() ? "<wbr>" : "");
    start = end;
  }
  return result;
}

class Page {
 public:
  Page(const Report& report, std::span<const TrialWithTraceForMemoryChart> traced) : report_(report), traced_(traced) {}

  std::string write() {
    put_head();
    put_advice();
    put_table();
    put_saving();
    put_sweep_charts();
    put_memory();
    put_owners();
    put_time();
    put_findings();
    put_method();
    put_list("Notes", notes(report_));
    text_ += "<footer>memtune " + escape(report_.version) + "</footer>\n</main>\n<script>" + kHtmlScript +
             "</script>\n</body>\n</html>\n";
    return std::move(text_);
  }

 private:
  void put_head() {
    const std::string title = report_.model + (report_.device.empty() ? "" : " · ") + device_text(report_);
    text_ =
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        // The page never fetches anything.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'\">\n<title>memtune: " +
        escape(title) + "</title>\n<style>" + kHtmlStyle + "</style>\n</head>\n<body>\n<main>\n<h1>" +
        escape(report_.model.empty() ? "memtune" : report_.model) + "</h1>\n<p class=\"soft\">" +
        escape(device_text(report_)) + (report_.settings.empty() ? "" : "<br>") + escape(report_.settings) + "</p>\n";
    for (const std::string& line : warnings(report_))
      text_ += "<p class=\"doubtful\"><b>Warning:</b> " + escape(line) + "</p>\n";
  }

  void open_section(const std::string& title, const char* style = "") {
    text_ += std::string("<section") + (*style ? std::string(" class=\"") + style + "\"" : "") + ">\n<h2>" +
             escape(title) + "</h2>\n";
  }
  void close_section() { text_ += "</section>\n"; }

  void put_advice() {
    const RecommendationText said = verdict(report_);
    if (said.head.empty()) return;
    open_section(said.head, said.good ? "advice" : "advice none");
    text_ += "<p>" + escape(said.text) + "</p>\n";
    for (const BestTrialWithTrainerSettingsOrPythonPlan& alternative : alternatives(report_))
      text_ += "<p><b>" + escape(alternative.head) + ":</b> " + escape(alternative.text) + "</p>\n";
    if (const std::string gained = gain_text(report_); !gained.empty())
      text_ += "<p><b>Gained:</b> " + escape(gained) + "</p>\n";
    if (const std::string more = more_memory_text(report_); !more.empty())
      text_ += "<p><b>More memory:</b> " + escape(more) + "</p>\n";
    if (const std::string told = predictions_text(report_); !told.empty())
      text_ += "<p><b>Predicted:</b> " + escape(told) + "</p>\n";
    for (const TrialResultRow& row : report_.rows) {
      if (row.recommended) put_figures(row);
    }
    close_section();
  }

  void put_figures(const TrialResultRow& row) {
    const result::TrialMeasurement& m = row.measurement;
    text_ += "<div class=\"figures\">";
    put_figure(fixed(m.step_ms.median, 1) + " ms", "a step");
    put_figure(format_bytes(m.peak_bytes.allocated), m.peak_bytes.device > 0 ? "peak allocated" : "at the peak");
    if (m.peak_bytes.device > 0) put_figure(format_bytes(m.peak_bytes.device), "on the device");
    const TrialResultRow* base = reference_row(report_, row);
    if (base && base != &row && base->measurement.step_ms.median > 0 && base->measurement.peak_bytes.allocated > 0) {
      const std::string of = "of " + report_.reference;
      put_figure(fixed(result::WorkNormalizedTrialComparator(report_.rows).ratio(row, *base).value, 2) + " ×",
                 "the time " + of);
      put_figure(fixed(static_cast<double>(m.peak_bytes.allocated) /
                           static_cast<double>(base->measurement.peak_bytes.allocated),
                       2) +
                     " ×",
                 "the memory " + of);
    }
    text_ += "</div>\n";
  }

  void put_figure(const std::string& metric, const std::string& what) {
    text_ += "<span><b>" + escape(metric) + "</b>" + escape(what) + "</span>";
  }

  void put_table() {
    open_section("Trials");
    std::vector<const TrialResultRow*> fine, failed;
    for (const TrialResultRow* row : ranked(report_.rows)) (worked(*row) ? fine : failed).push_back(row);
    if (fine.empty() && failed.empty()) text_ += "<p>There are no trials.</p>\n";
    if (!fine.empty()) put_worked(fine);
    if (!failed.empty()) put_failed(failed);
    close_section();
  }

  void put_worked(const std::vector<const TrialResultRow*>& rows) {
    const std::vector<TableColumn> columns = make_columns(report_, rows);
    put_columns(columns, rows);
    if (const std::vector<std::string> parts = legend(report_); !parts.empty())
      text_ += "<p class=\"soft\">" + escape(join(parts, "; ")) + "</p>\n";
    put_meanings(columns);
    put_ranks();
  }

  // Collapsed by default: there may be many ranks.
  void put_ranks() {
    const TrialResultRow* row = rank_row(report_);
    if (!row) return;
    text_ += "<details><summary>Each rank of " + escape(row->measurement.strategy) + "</summary>\n";
    put_columns(rank_columns(report_), {});
    text_ += "</details>\n";
  }

  // `rows`: the trials of the cells; empty if the cells are not trials.
  void put_columns(const std::vector<TableColumn>& columns, const std::vector<const TrialResultRow*>& rows) {
    text_ += "<div class=\"wide\"><table class=\"trials\">\n<thead><tr>";
    for (const TableColumn& column : columns)
      text_ += std::string("<th") + (column.words ? " class=\"words\"" : "") +
               (column.meaning.empty() ? "" : " title=\"" + escape(column.meaning) + "\"") + ">" +
               escape(trim(column.head)) + "</th>";
    text_ += "</tr></thead>\n<tbody>\n";
    for (size_t i = 0; i < columns.front().cells.size(); ++i) {
      text_ += !rows.empty() && rows[i]->recommended ? "<tr class=\"chosen\">" : "<tr>";
      for (const TableColumn& column : columns) put_cell(column.cells[i], column.words);
      text_ += "</tr>\n";
    }
    text_ += "</tbody></table></div>\n";
  }

  void put_meanings(const std::vector<TableColumn>& columns) {
    text_ += "<details class=\"soft\"><summary>What the columns mean</summary>\n<dl>\n";
    put_terms(meanings(columns));
    text_ += "</dl></details>\n";
  }

  void put_cell(const TableCell& cell, bool words) {
    const std::string style = trim(std::string(words ? "words " : "") + class_of(cell.paint));
    text_ += (style.empty() ? "<td>" : "<td class=\"" + style + "\">") +
             (words ? breakable(cell.text) : escape(cell.text)) + "</td>";
  }

  void put_failed(const std::vector<const TrialResultRow*>& rows) {
    text_ += "<h3 style=\"margin-top:16px\">Did not work</h3>\n<div class=\"wide\"><table>\n";
    for (const TrialResultRow* row : rows)
      text_ += "<tr><td class=\"words bad\">✗ " + breakable(row->measurement.strategy) + "</td><td class=\"reason\">" +
               escape(failure_text(*row)) + why(*row) + "</td></tr>\n";
    text_ += "</table></div>\n";
  }

  static std::string why(const TrialResultRow& row) {
    return row.measurement.oom ? "<p><b>Why:</b> " + escape(oom_text(*row.measurement.oom)) + "</p>" : "";
  }

  void put_saving() {
    const TrialResultRow* row = saving_row(report_);
    if (!row) return;
    open_section("Saving the training's state");
    const std::string advice = saving_advice(*row, report_.mtbf_s);
    if (!advice.empty()) text_ += "<p>" + escape(advice) + "</p>\n";
    const std::vector<TableColumn> columns = saving_columns(*row, report_.mtbf_s);
    if (!columns.empty()) put_columns(columns, {}), put_meanings(columns);
    for (const std::string& line : saving_failures(*row)) text_ += "<p class=\"bad\">✗ " + escape(line) + "</p>\n";
    close_section();
  }

  void put_figure_of(const std::string& title, const std::string& chart, const std::string& caption) {
    if (chart.empty()) return;
    text_ += "<figure>\n<h3>" + escape(title) + "</h3>\n<div class=\"wide\">" + chart + "</div><figcaption>" +
             escape(caption) + "</figcaption>\n</figure>\n";
  }

  void put_sweep_charts() {
    const std::string pareto = pareto_chart(report_);
    if (pareto.empty()) return;
    open_section("Time against memory");
    text_ += "<div class=\"charts\">\n";
    put_figure_of("Time and peak of the same work", pareto,
                  "Ringed: recommended. The line is the Pareto front: no other trial is both faster and smaller. An "
                  "arrow at the upper edge is a far slower trial." +
                      marks_of_plans());
    text_ += "<div>\n";
    put_figure_of("Step time", step_chart(report_), "");
    put_figure_of("Copies", overlap_chart(report_),
                  "Hidden: while the device computed. Exposed: while it waited or was idle.");
    text_ += "</div>\n";
    text_ += "</div>\n";
    close_section();
  }

  std::string marks_of_plans() const {
    return std::string(std::ranges::any_of(report_.rows, result::is_planned)
                           ? " A diamond is a plan made for this model."
                           : "") +
           (has_predictions(report_) ? " Hollow: where it was predicted." : "") +
           (report_.frontiers.empty() ? "" : " Dotted: the best plans for other budgets, predicted.");
  }

  void put_memory() {
    int64_t top = 0;
    for (const TrialWithTraceForMemoryChart& trial : traced_) {
      if (!trial.trace) continue;
      for (const trace::AllocatedBytesSample& sample : trial.trace->memory) top = std::max(top, sample.allocated_bytes);
    }
    if (top == 0) return;
    open_section("Memory over time");
    text_ += "<div class=\"charts\">\n";
    for (const TrialWithTraceForMemoryChart& trial : traced_) {
      if (!trial.trace) continue;
      put_figure_of(label(*trial.row) + (trial.row->recommended ? ", recommended" : ""),
                    memory_chart(*trial.trace, top), memory_caption(trial));
    }
    text_ += "</div>\n";
    close_section();
  }

  void put_owners() {
    for (const TrialWithTraceForMemoryChart& trial : traced_) {
      if (!trial.row->measurement.memory) continue;
      const result::StepMemoryBreakdown& memory = *trial.row->measurement.memory;
      open_section(owner_title(memory) + ", " + label(*trial.row));
      put_columns(owner_columns(memory), {});
      for (const std::string& text : owner_texts(memory)) text_ += "<p class=\"soft\">" + escape(text) + "</p>\n";
      put_figure_of("Memory by call path", flame_graph(trial.memory_paths),
                    "Widths are bytes of the sum above; callers are above what they call. Without Python frames: "
                    "backward, and libraries.");
      close_section();
    }
  }

  static std::string memory_caption(const TrialWithTraceForMemoryChart& trial) {
    int64_t highest = 0;
    for (const trace::AllocatedBytesSample& sample : trial.trace->memory)
      highest = std::max(highest, sample.allocated_bytes);
    const std::string note = peak_note(highest, result::peak(*trial.row));
    const std::string tensors = tensors_text(*trial.trace);
    return "Peak " + peak_text(*trial.trace) + "." + (tensors.empty() ? "" : " The largest tensors: " + tensors + ".") +
           (note.empty() ? "" : " " + note + ".");
  }

  void put_time() {
    const std::string text = time_text(report_);
    if (text.empty()) return;
    open_section("Time of a step");
    text_ += "<p>" + escape(text) + "</p>\n";
    close_section();
  }

  void put_findings() {
    if (report_.findings.empty()) return;
    open_section("Findings in the recommended trial's trace");
    text_ += "<ul class=\"findings\">\n";
    for (const findings::Finding& finding : report_.findings)
      text_ += "<li class=\"" + to_string(finding.severity) + "\"><b>" + to_string(finding.severity) + "</b> " +
               escape(sentence(finding)) + "</li>\n";
    text_ += "</ul>\n";
    close_section();
  }

  void put_terms(const std::vector<ReportLabelAndExplanation>& terms) {
    for (const ReportLabelAndExplanation& each : terms)
      text_ += "<dt>" + escape(each.term) + "</dt><dd>" + escape(each.text) + "</dd>\n";
  }

  void put_method() {
    open_section("How it was measured");
    text_ += "<dl>\n";
    put_terms(method(report_));
    if (!report_.origin.command.empty())
      text_ += "<dt>Command</dt><dd><code>" + escape(report_.origin.command) + "</code></dd>\n";
    text_ += "</dl>\n";
    close_section();
  }

  void put_list(const std::string& title, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    open_section(title);
    text_ += "<ul>\n";
    for (const std::string& line : lines) text_ += "<li>" + escape(line) + "</li>\n";
    text_ += "</ul>\n";
    close_section();
  }

  const Report& report_;
  std::span<const TrialWithTraceForMemoryChart> traced_;
  std::string text_;
};

}  // namespace

std::string html(const Report& report, std::span<const TrialWithTraceForMemoryChart> traced) {
  return Page(report, traced).write();
}

}  // namespace memtune::report
