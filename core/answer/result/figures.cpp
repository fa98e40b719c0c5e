#include "core/answer/result/figures.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/base/layout.h"

namespace memtune::result {
namespace {

template <auto Member>
double of(const Measurement& m) {
  return static_cast<double>(m.*Member);
}

template <auto Part, auto Member>
double within(const Measurement& m) {
  return static_cast<double>(m.*Part.*Member);
}

template <auto Get>
bool positive(const Measurement& m) {
  return Get(m) > 0;
}

bool moves(const Measurement& m) { return m.transfer.out_bytes + m.transfer.in_bytes > 0; }

// Known if above 0.
template <auto Get>
constexpr Figure plain(const char* key, const char* head, Unit unit, int digits) {
  return {key, head, unit, digits, Get, positive<Get>};
}

// Known if the trial copies activations.
template <auto Get>
constexpr Figure of_copies(const char* key, const char* head, Unit unit, int digits) {
  return {key, head, unit, digits, Get, moves};
}

using M = Measurement;
using T = TransferFigures;
using C = Communication;
constexpr int kForLeast = Figure::kForLeast;

constexpr Figure kFigures[] = {
    plain<within<&M::step_ms, &StepTime::median>>("step_ms", "step ms", Unit::ms, kForLeast),
    plain<within<&M::step_ms, &StepTime::low>>("step_ms_low", "step ms, low", Unit::ms, kForLeast),
    plain<within<&M::step_ms, &StepTime::high>>("step_ms_high", "step ms, high", Unit::ms, kForLeast),
    plain<within<&M::peak_bytes, &Peak::allocated>>("peak_allocated_bytes", "peak", Unit::bytes, 2),
    plain<within<&M::peak_bytes, &Peak::reserved>>("peak_reserved_bytes", "reserved", Unit::bytes, 2),
    plain<within<&M::peak_bytes, &Peak::device>>("peak_device_bytes", "device", Unit::bytes, 2),
    plain<of<&M::floor_bytes>>("floor_bytes", "before a step", Unit::bytes, 2),
    plain<of<&M::host_bytes>>("host_bytes", "host", Unit::bytes, 2),
    plain<of<&M::samples_per_s>>("samples_per_s", "samples/s", Unit::per_second, kForLeast),
    plain<of<&M::tokens_per_s>>("tokens_per_s", "tokens/s", Unit::per_second, kForLeast),
    of_copies<within<&M::transfer, &T::out_bytes>>("out_bytes", "out", Unit::bytes, 2),
    of_copies<within<&M::transfer, &T::in_bytes>>("in_bytes", "in", Unit::bytes, 2),
    of_copies<within<&M::transfer, &T::hidden>>("hidden", "hidden", Unit::share, 0),
    of_copies<within<&M::transfer, &T::exposed_ms>>("exposed_ms", "exposed ms", Unit::ms, 1),
    of_copies<within<&M::transfer, &T::out_gb_per_s>>("out_gb_per_s", "out GB/s", Unit::gb_per_second, 1),
    of_copies<within<&M::transfer, &T::in_gb_per_s>>("in_gb_per_s", "in GB/s", Unit::gb_per_second, 1),
    plain<within<&M::communication, &C::gathered_bytes>>("gathered_bytes", "gathered", Unit::bytes, 2),
    plain<within<&M::communication, &C::reduced_bytes>>("reduced_bytes", "reduced", Unit::bytes, 2),
    plain<within<&M::communication, &C::exposed_ms>>("exposed_communication_ms", "exposed comm. ms", Unit::ms, 1),
    plain<within<&M::communication, &C::collectives_ms>>("collectives_ms", "collectives ms", Unit::ms, 1),
    plain<of<&M::recomputed_ops>>("recomputed_ops", "recomputed", Unit::count, 0),
    plain<of<&M::optimizer_ms>>("optimizer_ms", "optimizer ms", Unit::ms, 2),
};

double largest(const Figure& figure, std::span<const Row* const> rows) {
  double most = 0;
  for (const Row* row : rows) most = std::max(most, figure.get(row->measurement));
  return most;
}

double least(const Figure& figure, std::span<const Row* const> rows) {
  double least = std::numeric_limits<double>::infinity();
  for (const Row* row : rows) least = std::min(least, figure.get(row->measurement));
  return least;
}

}  // namespace

bool is_whole(Unit unit) { return unit == Unit::bytes || unit == Unit::count; }

std::span<const Figure> figures() { return kFigures; }

const Figure& figure(std::string_view key) {
  const auto found = std::ranges::find(kFigures, key, &Figure::key);
  if (found == std::end(kFigures)) throw std::out_of_range("no figure " + std::string(key));
  return *found;
}

const Figure& rate_figure(std::span<const Row* const> rows) {
  const Figure& tokens = figure("tokens_per_s");
  const bool all = std::ranges::all_of(rows, [&](const Row* row) { return tokens.known(row->measurement); });
  return all ? tokens : figure("samples_per_s");
}

FigureColumn::FigureColumn(const Figure& figure, std::span<const Row* const> rows)
    : figure_(figure), digits_(figure.digits) {
  if (figure.unit == Unit::bytes) {
    const ByteUnit unit = unit_for(static_cast<int64_t>(largest(figure, rows)));
    byte_unit_ = unit.name;
    scale_ = 1 / unit.bytes;
  }
  if (figure.unit == Unit::share) scale_ = 100;
  if (digits_ != Figure::kForLeast) return;
  digits_ = figure.unit == Unit::per_second ? (least(figure, rows) >= 100 ? 0 : 2) : digits_for(least(figure, rows));
}

std::string FigureColumn::head() const {
  if (figure_.unit == Unit::bytes) return std::string(figure_.head) + " " + byte_unit_;
  return figure_.unit == Unit::share ? std::string(figure_.head) + " %" : figure_.head;
}

double FigureColumn::in_unit(double raw) const { return raw * scale_; }

double FigureColumn::value(const Measurement& m) const { return in_unit(figure_.get(m)); }

std::string FigureColumn::text(const Measurement& m) const { return figure_.known(m) ? text(value(m)) : kNothing; }

std::string FigureColumn::text(double value) const { return fixed(value, digits_); }

}  // namespace memtune::result
