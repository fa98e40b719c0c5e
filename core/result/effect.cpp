#include "core/result/effect.h"

namespace memtune::result {
namespace {

bool is_baseline(const Measurement& m) { return m.strategy == "none"; }
bool counted(const Measurement& m) { return m.recomputed_bytes.has_value() || is_baseline(m); }

}  // namespace

bool did_nothing(const Measurement& m) {
  return m.outcome == Outcome::ok && !is_baseline(m) && counted(m) && m.recomputed_ops == 0 && changed_bytes(m) == 0;
}

int64_t changed_bytes(const Measurement& m) { return m.transfer.out_bytes + m.recomputed_bytes.value_or(0); }

bool changes_less(const Row& a, const Row& b) {
  const Measurement &of_a = a.measurement, &of_b = b.measurement;
  if (is_base(a) || is_base(b)) return is_base(a) && !is_base(b);
  if (!a.command.empty() && !b.command.empty()) return peak(a) < peak(b);  // what they change is not known
  return counted(of_a) && counted(of_b) ? changed_bytes(of_a) < changed_bytes(of_b) : peak(a) > peak(b);
}

}  // namespace memtune::result
