#include "core/report/columns.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/layout.h"

namespace memtune::report {
namespace {

constexpr const char* kNothing = "–";

int64_t largest_peak(std::span<const Row* const> rows) {
  int64_t largest = 0;
  for (const Row* row : rows) largest = std::max(largest, row->measurement.peak_bytes.allocated);
  return largest;
}

int digits_for(double smallest) { return smallest >= 100 ? 1 : smallest >= 10 ? 2 : smallest >= 1 ? 3 : 4; }

class Columns {
 public:
  Columns(const Report& report, std::span<const Row* const> rows) : report_(report), rows_(rows) {}

  std::vector<Column> make() {
    add(" ", Column::kAlways, true, [](const Row& row) {
      return row.recommended ? Cell{"*", Paint::good} : row.pareto ? Cell{"•", Paint::bold} : Cell{""};
    });
    add("strategy", Column::kAlways, true, [](const Row& row) {
      return Cell{row.measurement.strategy, row.recommended ? Paint::good : Paint::plain};
    });
    auto axis = [](std::optional<int64_t> value) { return Cell{value ? std::to_string(*value) : kNothing}; };
    add("batch", Column::kAlways, false, [&](const Row& row) { return axis(row.batch); });
    add("seq", Column::kAlways, false, [&](const Row& row) { return axis(row.sequence); });
    add_time();
    add_memory();
    add_transfer();
    add_throughput();
    add("gradients", 6, true, [&](const Row& row) { return gradients(row); });
    return std::move(columns_);
  }

 private:
  template <typename Make>
  void add(std::string head, int importance, bool words, Make make) {
    Column column{std::move(head), importance, words, {}, columns_.size() < 2 ? 1 : 2};
    for (const Row* row : rows_) column.cells.push_back(make(*row));
    auto known = [](const Cell& cell) { return cell.text != kNothing; };
    if (std::any_of(column.cells.begin(), column.cells.end(), known)) columns_.push_back(std::move(column));
  }

  void add_time() {
    double fastest = INFINITY;
    for (const Row* row : rows_) fastest = std::min(fastest, row->measurement.step_ms.median);
    int digits = digits_for(fastest), width = 0;
    auto half_interval = [&](const Row& row) {
      return fixed((row.measurement.step_ms.high - row.measurement.step_ms.low) / 2, digits);
    };
    for (const Row* row : rows_) width = std::max(width, display_width(half_interval(*row)));
    add("step ms", Column::kAlways, false, [&](const Row& row) {
      return Cell{fixed(row.measurement.step_ms.median, digits) + " ± " + pad_left(half_interval(row), width),
                  row.measurement.noisy ? Paint::doubtful : Paint::plain};
    });
    add("× " + reference_label(report_), 7, false, [&](const Row& row) {
      const Row* base = reference_row(report_, row);
      if (!base || base->measurement.step_ms.median <= 0) return Cell{kNothing};
      return Cell{fixed(row.measurement.step_ms.median / base->measurement.step_ms.median, 2)};
    });
  }

  void add_memory() {
    ByteUnit unit = unit_for(largest_peak(rows_));
    add(std::string("peak ") + unit.name, Column::kAlways, false,
        [&](const Row& row) { return Cell{fixed(double(row.measurement.peak_bytes.allocated) / unit.bytes, 2)}; });
    add(std::string("−") + unit.name, 5, false, [&](const Row& row) {
      const Row* base = reference_row(report_, row);
      if (!base || base == &row) return Cell{kNothing};
      int64_t saved = base->measurement.peak_bytes.allocated - row.measurement.peak_bytes.allocated;
      const std::string size = fixed(std::abs(double(saved)) / unit.bytes, 2);
      return Cell{(saved < 0 && size != "0.00" ? "+" : "") + size};
    });
  }

  void add_transfer() {
    auto moves = [](const Row& row) {
      return row.measurement.transfer.out_bytes + row.measurement.transfer.in_bytes > 0;
    };
    add("hidden %", 4, false,
        [&](const Row& row) { return Cell{moves(row) ? fixed(100 * row.measurement.transfer.hidden, 0) : kNothing}; });
    add("exposed ms", 3, false,
        [&](const Row& row) { return Cell{moves(row) ? fixed(row.measurement.transfer.exposed_ms, 1) : kNothing}; });
  }

  void add_throughput() {
    auto counts_tokens = [](const Row* row) { return row->measurement.tokens_per_s > 0; };
    bool tokens = std::all_of(rows_.begin(), rows_.end(), counts_tokens);
    auto rate = [&](const Row& row) { return tokens ? row.measurement.tokens_per_s : row.measurement.samples_per_s; };
    double least = INFINITY;
    for (const Row* row : rows_) least = std::min(least, rate(*row));
    add(tokens ? "tokens/s" : "samples/s", 2, false,
        [&](const Row& row) { return Cell{rate(row) > 0 ? fixed(rate(row), least >= 100 ? 0 : 2) : kNothing}; });
  }

  Cell gradients(const Row& row) const {
    const result::Gradients& gradients = row.measurement.gradients;
    if (row.measurement.strategy == report_.reference) return {"reference", Paint::dim};
    if (!gradients.compared) return {kNothing};
    if (gradients.equal) return {"equal"};
    char text[48];
    std::snprintf(text, sizeof text, "≈ %.1e", gradients.max_abs_difference);
    return {text, Paint::doubtful};
  }

  const Report& report_;
  std::span<const Row* const> rows_;
  std::vector<Column> columns_;
};

}  // namespace

int Column::width() const {
  int width = display_width(head);
  for (const Cell& cell : cells) width = std::max(width, display_width(cell.text));
  return width;
}

std::vector<Column> make_columns(const Report& report, std::span<const Row* const> rows) {
  return Columns(report, rows).make();
}

std::string reference_label(const Report& report) {
  return display_width(report.reference) <= 8 ? report.reference : "ref";
}

void drop_to_fit(std::vector<Column>& columns, int width) {
  auto less = [](const Column& a, const Column& b) { return a.importance < b.importance; };
  while (line_width(columns) > width) {
    auto least = std::min_element(columns.begin(), columns.end(), less);
    if (least == columns.end() || least->importance == Column::kAlways) return;
    columns.erase(least);
  }
}

int line_width(const std::vector<Column>& columns) {
  int width = 0;
  for (const Column& column : columns) width += column.gap + column.width();
  return width;
}

}  // namespace memtune::report
