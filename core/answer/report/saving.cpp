#include "core/answer/report/saving.h"

#include <algorithm>
#include <array>

#include "core/answer/result/metrics.h"
#include "core/base/layout.h"
#include "core/base/text.h"

namespace memtune::report {
namespace {

using result::SaveIntervalAdvice;
using result::StateSaveModeMeasurement;
using result::TrialResultRow;

constexpr std::array kRates = {3600.0, 12 * 3600.0, 7 * 86400.0};  // mean times between failures if none is given

std::vector<const StateSaveModeMeasurement*> that_worked(const TrialResultRow& row) {
  std::vector<const StateSaveModeMeasurement*> saves;
  for (const StateSaveModeMeasurement& save : row.saves)
    if (save.outcome == result::TrialOutcome::ok) saves.push_back(&save);
  return saves;
}

std::string percent_text(double share, double least) { return fixed(100 * share, least < 0.001 ? 3 : 2); }

class SavingColumns {
 public:
  SavingColumns(const TrialResultRow& row, double mtbf_s) : row_(row), saves_(that_worked(row)), mtbf_s_(mtbf_s) {}

  std::vector<TableColumn> make() {
    const auto best = result::advise(row_.saves, row_.measurement.step_ms.median, mtbf_s_ > 0 ? mtbf_s_ : kRates[1]);
    add(" ", true, [&](const StateSaveModeMeasurement& save) {
      return mtbf_s_ > 0 && best && save.mode == best->mode ? TableCell{"*", ReportTextHighlightKind::good}
                                                            : TableCell{""};
    });
    add("saving state", true, [](const StateSaveModeMeasurement& save) { return TableCell{save.mode}; });
    add_ms("blocked ms", &StateSaveModeMeasurement::blocked_ms, "median time that training waited for a save");
    add_ms("most ms", &StateSaveModeMeasurement::most_blocked_ms);
    add_ms("durable ms", &StateSaveModeMeasurement::durable_ms, "time until the save was on disk");
    add(
        "× step", false,
        [](const StateSaveModeMeasurement& save) {
          return TableCell{save.slowdown ? fixed(*save.slowdown, 2) : result::kNothing};
        },
        "time of steps during a save over that of other steps; – too few such steps");
    add_bytes("state", &StateSaveModeMeasurement::bytes);
    add_bytes("host", &StateSaveModeMeasurement::host_bytes);
    if (mtbf_s_ > 0 && best) add_advice(best->overhead);
    return std::move(columns_);
  }

 private:
  template <typename Make>
  void add(std::string head, bool words, Make make, std::string meaning = "") {
    TableColumn column{std::move(head),   TableColumn::kAlways, words, {}, columns_.size() < 2 ? 1 : 2,
                       std::move(meaning)};
    for (const StateSaveModeMeasurement* save : saves_) column.cells.push_back(make(*save));
    columns_.push_back(std::move(column));
  }

  void add_ms(const char* head, double StateSaveModeMeasurement::*metric, const char* meaning = "") {
    const auto less = [&](const StateSaveModeMeasurement* a, const StateSaveModeMeasurement* b) {
      return a->*metric < b->*metric;
    };
    const int digits = digits_for((*std::ranges::min_element(saves_, less))->*metric);
    add(
        head, false,
        [&](const StateSaveModeMeasurement& save) { return TableCell{fixed(save.*metric, std::min(digits, 2))}; },
        meaning);
  }

  void add_bytes(const char* head, int64_t StateSaveModeMeasurement::*metric) {
    int64_t largest = 0;
    for (const StateSaveModeMeasurement* save : saves_) largest = std::max(largest, save->*metric);
    const ByteDisplayUnit unit = unit_for(largest);
    add(std::string(head) + " " + unit.name, false, [&](const StateSaveModeMeasurement& save) {
      return TableCell{fixed(static_cast<double>(save.*metric) / unit.bytes, 2)};
    });
  }

  void add_advice(double least) {
    const auto advice = [this](const StateSaveModeMeasurement& save) {
      return result::advise(save, row_.measurement.step_ms.median, mtbf_s_);
    };
    add(
        "every", false,
        [&](const StateSaveModeMeasurement& save) { return TableCell{std::to_string(advice(save).every_steps)}; },
        "steps from one save to the next");
    add(
        "cost %", false,
        [&](const StateSaveModeMeasurement& save) { return TableCell{percent_text(advice(save).overhead, least)}; },
        "share of the time that saves and failures cost");
  }

  const TrialResultRow& row_;
  std::vector<const StateSaveModeMeasurement*> saves_;
  double mtbf_s_;
  std::vector<TableColumn> columns_;
};

}  // namespace

const TrialResultRow* saving_row(const Report& report) {
  const auto found = std::ranges::find_if(
      report.rows, [](const TrialResultRow& row) { return row.recommended && !row.saves.empty(); });
  return found == report.rows.end() ? nullptr : &*found;
}

std::vector<TableColumn> saving_columns(const TrialResultRow& row, double mtbf_s) {
  if (that_worked(row).empty()) return {};
  return SavingColumns(row, mtbf_s).make();
}

std::vector<std::string> saving_failures(const TrialResultRow& row) {
  std::vector<std::string> lines;
  for (const StateSaveModeMeasurement& save : row.saves)
    if (save.outcome != result::TrialOutcome::ok)
      lines.push_back(save.mode + ": " + to_string(save.outcome) + (save.reason.empty() ? "" : ": " + save.reason));
  return lines;
}

std::string saving_advice(const TrialResultRow& row, double mtbf_s) {
  const std::vector<double> rates = mtbf_s > 0 ? std::vector{mtbf_s} : std::vector(kRates.begin(), kRates.end());
  std::vector<std::string> parts;
  for (const double rate : rates)
    if (const auto advice = result::advise(row.saves, row.measurement.step_ms.median, rate))
      parts.push_back(saving_text(*advice));
  return join(parts, "; ");
}

std::string saving_text(const SaveIntervalAdvice& advice) {
  const std::string steps = advice.every_steps == 1 ? "step" : std::to_string(advice.every_steps) + " steps";
  return "with a failure every " + duration_text(advice.mtbf_s) + ": " + advice.mode + " every " + steps + " (" +
         duration_text(advice.interval_s) + "), " + percent_text(advice.overhead, advice.overhead) + " % of the time";
}

std::string duration_text(double seconds) {
  const auto in = [&](double unit, const char* name) {
    const std::string text = fixed(seconds / unit, 1);
    return (text.ends_with(".0") ? text.substr(0, text.size() - 2) : text) + " " + name;
  };
  if (seconds < 120) return in(1, "s");
  if (seconds < 2 * 3600) return seconds == 3600 ? "1 h" : in(60, "min");
  return seconds < 2 * 86400 ? in(3600, "h") : in(86400, "d");
}

}  // namespace memtune::report
