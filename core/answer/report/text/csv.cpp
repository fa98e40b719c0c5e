#include "core/answer/report/text/csv.h"

#include <charconv>
#include <string_view>

#include "core/answer/report/prediction.h"
#include "core/answer/result/effect.h"
#include "core/answer/result/metrics.h"

namespace memtune::report {
namespace {

using result::MetricDefinition;
using result::TrialResultRow;

// A spreadsheet would evaluate such text as a formula.
bool is_formula(const std::string& text) {
  return !text.empty() && std::string_view("=+-@").find(text[0]) != std::string_view::npos;
}

std::string quoted(const std::string& text) {
  if (is_formula(text)) return quoted("'" + text);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (char c : text) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

class Line {
 public:
  void text(const std::string& value) { text_ += (text_.empty() ? "" : ",") + quoted(value); }
  void flag(bool value) { field(value ? "true" : "false"); }
  void empty() { field(""); }
  void axis(std::optional<int64_t> value) { value ? number(*value) : empty(); }

  // The shortest form that reads back as the same number.
  template <typename Number>
  void number(Number value) {
    char digits[32];
    field(std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr));
  }

  // In a failed trial, zero means not measured.
  template <typename Number>
  void measured(const result::TrialMeasurement& of, Number value) {
    of.outcome != result::TrialOutcome::ok&& value == Number{} ? empty() : number(value);
  }
  std::string end() && { return std::move(text_) + "\n"; }

 private:
  void field(const std::string& value) { text_ += "," + value; }
  std::string text_;
};

// The column `noisy` follows this one.
constexpr std::string_view kBeforeNoisy = "step_ms_high";

std::string header(bool predicted) {
  std::string text = "strategy,batch,sequence,outcome,reason";
  for (const MetricDefinition& metric : result::metrics()) {
    text += std::string(",") + metric.key;
    if (metric.key == kBeforeNoisy) text += ",noisy";
  }
  return text +
         ",loss,gradients_equal,gradients_max_abs_difference,losses_changed,pareto,recommended,device,emulated,written,"
         "command,"
         "memtune,torch,driver,machine" +
         (predicted ? ",predicted_step_ms,predicted_peak_bytes,predicted_step_error,predicted_peak_error" : "") +
         ",no_effect\n";
}

void put_figures(Line& line, const result::TrialMeasurement& m) {
  for (const MetricDefinition& metric : result::metrics()) {
    const double value = metric.get(m);
    if (result::is_whole(metric.unit))
      line.measured(m, static_cast<int64_t>(value));
    else
      line.measured(m, value);
    if (metric.key == kBeforeNoisy) line.flag(m.noisy);
  }
}

void put_equality(Line& line, const result::TrialMeasurement& m) {
  m.loss.empty() ? line.empty() : line.number(m.loss.front());
  if (m.gradients.compared) {
    line.flag(m.gradients.equal);
    line.number(m.gradients.max_abs_difference);
  } else {
    line.empty();
    line.empty();
  }
  m.losses.compared ? line.flag(m.losses.changed) : line.empty();
}

void put_predicted(Line& line, const TrialResultRow& row) {
  const auto error = [&](std::optional<double> share) { share ? line.number(*share) : line.empty(); };
  row.predicted ? line.number(row.predicted->step_ms) : line.empty();
  row.predicted ? line.number(row.predicted->peak_bytes) : line.empty();
  error(step_error(row));
  error(peak_error(row));
}

std::string csv_line(const TrialResultRow& row, const trace::RunProvenance& origin, bool predicted) {
  const result::TrialMeasurement& m = row.measurement;
  Line line;
  line.text(m.strategy);
  line.axis(row.batch);
  line.axis(row.sequence);
  line.text(to_string(m.outcome));
  line.text(m.reason);
  put_figures(line, m);
  put_equality(line, m);
  line.flag(row.pareto);
  line.flag(row.recommended);
  line.text(m.device);
  line.flag(m.emulated);
  for (const std::string& text :
       {origin.written, origin.command, origin.memtune, origin.torch, origin.driver, origin.machine})
    line.text(text);
  if (predicted) put_predicted(line, row);
  line.text(effect_text(m));
  return std::move(line).end();
}

}  // namespace

std::string csv(const Report& report) {
  const bool predicted = has_predictions(report);
  std::string text = header(predicted);
  const Report shown = printable(report);
  for (const TrialResultRow& row : shown.rows) text += csv_line(row, shown.origin, predicted);
  return text;
}

}  // namespace memtune::report
