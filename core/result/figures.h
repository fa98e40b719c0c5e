// What of a measurement is told as a number: its name for scripts and for people, its unit, and how it is written. The
// table, the page, CSV, limits and the viewer take their figures from here.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/result/row.h"

namespace memtune::result {

enum class Unit { ms, bytes, share, count, per_second, gb_per_second };
bool is_whole(Unit unit);  // bytes and counts

struct Figure {
  const char* key;   // "exposed_ms": of CSV, for scripts
  const char* head;  // "exposed ms": of columns, for people; bytes and shares have their unit behind it
  Unit unit;
  int digits;                         // behind the point; kForLeast: as many as the least of a column needs
  double (*get)(const Measurement&);  // 0: not measured
  bool (*known)(const Measurement&);  // does the number say something? A hidden share of no copies does not

  static constexpr int kForLeast = -1;
};

std::span<const Figure> figures();  // in the order of CSV
const Figure& figure(std::string_view key);
// Tokens a second where all rows count them, else samples a second.
const Figure& rate_figure(std::span<const Row* const> rows);

inline constexpr const char* kNothing = "–";

// A figure of some rows, in which unit and digits are the same for all of them.
class FigureColumn {
 public:
  FigureColumn(const Figure& figure, std::span<const Row* const> rows);

  std::string head() const;                      // "step ms", "peak GiB", "hidden %"
  double in_unit(double raw) const;              // of ms or bytes, in the unit of the head
  double value(const Measurement& m) const;      // of it, likewise
  std::string text(const Measurement& m) const;  // kNothing where it is not known
  std::string text(double value) const;          // of the column's unit
  const char* byte_unit() const { return byte_unit_; }

 private:
  const Figure& figure_;
  const char* byte_unit_ = "";
  double scale_ = 1;
  int digits_ = 0;
};

}  // namespace memtune::result
