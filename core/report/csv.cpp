#include "core/report/csv.h"

#include <charconv>

namespace memtune::report {
namespace {

std::string quoted(const std::string& text) {
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

  // Shortest form that reads back as the same number.
  template <typename Number>
  void number(Number value) {
    char digits[32];
    field(std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr));
  }

  // Zero in a failed trial means that it did not come so far.
  template <typename Number>
  void measured(const result::Measurement& of, Number value) {
    of.outcome != result::Outcome::ok&& value == Number{} ? empty() : number(value);
  }
  std::string end() && { return std::move(text_) + "\n"; }

 private:
  void field(const std::string& value) { text_ += "," + value; }
  std::string text_;
};

constexpr const char* kHeader =
    "strategy,batch,sequence,outcome,reason,step_ms,step_ms_low,step_ms_high,noisy,peak_allocated_bytes,"
    "peak_reserved_bytes,peak_device_bytes,floor_bytes,host_bytes,samples_per_s,tokens_per_s,out_bytes,in_bytes,hidden,"
    "exposed_ms,out_gb_per_s,in_gb_per_s,recomputed_ops,loss,gradients_equal,gradients_max_abs_difference,pareto,"
    "recommended,device,emulated\n";

void put_step(Line& line, const result::Measurement& m) {
  for (double ms : {m.step_ms.median, m.step_ms.low, m.step_ms.high}) line.measured(m, ms);
  line.flag(m.noisy);
  for (int64_t bytes :
       {m.peak_bytes.allocated, m.peak_bytes.reserved, m.peak_bytes.device, m.floor_bytes, m.host_bytes})
    line.measured(m, bytes);
  for (double rate : {m.samples_per_s, m.tokens_per_s}) line.measured(m, rate);
}

void put_transfer(Line& line, const result::Measurement& m) {
  const result::TransferFigures& transfer = m.transfer;
  for (int64_t bytes : {transfer.out_bytes, transfer.in_bytes}) line.measured(m, bytes);
  for (double value : {transfer.hidden, transfer.exposed_ms, transfer.out_gb_per_s, transfer.in_gb_per_s})
    line.measured(m, value);
  line.measured(m, m.recomputed_ops);
}

void put_equality(Line& line, const result::Measurement& m) {
  m.loss.empty() ? line.empty() : line.number(m.loss.front());
  if (m.gradients.compared) {
    line.flag(m.gradients.equal);
    line.number(m.gradients.max_abs_difference);
  } else {
    line.empty();
    line.empty();
  }
}

std::string csv_line(const Row& row) {
  const result::Measurement& m = row.measurement;
  Line line;
  line.text(m.strategy);
  line.axis(row.batch);
  line.axis(row.sequence);
  line.text(to_string(m.outcome));
  line.text(m.reason);
  put_step(line, m);
  put_transfer(line, m);
  put_equality(line, m);
  line.flag(row.pareto);
  line.flag(row.recommended);
  line.text(m.device);
  line.flag(m.emulated);
  return std::move(line).end();
}

}  // namespace

std::string csv(const Report& report) {
  std::string text = kHeader;
  for (const Row& row : report.rows) text += csv_line(row);
  return text;
}

}  // namespace memtune::report
