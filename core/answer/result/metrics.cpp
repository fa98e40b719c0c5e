#include "core/answer/result/metrics.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/base/layout.h"

namespace memtune::result {
namespace {

template <auto Member>
double of(const TrialMeasurement& m) {
  return static_cast<double>(m.*Member);
}

template <auto Part, auto Member>
double within(const TrialMeasurement& m) {
  return static_cast<double>(m.*Part.*Member);
}

template <auto Get>
bool positive(const TrialMeasurement& m) {
  return Get(m) > 0;
}

bool offloads_activations(const TrialMeasurement& m) { return m.transfer.out_bytes + m.transfer.in_bytes > 0; }

// Known if above 0.
template <auto Get>
constexpr MetricDefinition plain(const char* key, const char* head, MetricUnit unit, int digits) {
  return {key, head, unit, digits, Get, positive<Get>};
}

// Known if the trial copies activations.
template <auto Get>
constexpr MetricDefinition of_copies(const char* key, const char* head, MetricUnit unit, int digits) {
  return {key, head, unit, digits, Get, offloads_activations};
}

using M = TrialMeasurement;
using T = StepHostDeviceCopyStats;
using C = CommunicationStats;
constexpr int kForLeast = MetricDefinition::kForLeast;

constexpr MetricDefinition kFigures[] = {
    plain<within<&M::step_ms, &StepTimeStats::median>>("step_ms", "step ms", MetricUnit::ms, kForLeast),
    plain<within<&M::step_ms, &StepTimeStats::low>>("step_ms_low", "step ms, low", MetricUnit::ms, kForLeast),
    plain<within<&M::step_ms, &StepTimeStats::high>>("step_ms_high", "step ms, high", MetricUnit::ms, kForLeast),
    plain<within<&M::peak_bytes, &PeakMemory::allocated>>("peak_allocated_bytes", "peak", MetricUnit::bytes, 2),
    plain<within<&M::peak_bytes, &PeakMemory::reserved>>("peak_reserved_bytes", "reserved", MetricUnit::bytes, 2),
    plain<within<&M::peak_bytes, &PeakMemory::device>>("peak_device_bytes", "device", MetricUnit::bytes, 2),
    plain<of<&M::floor_bytes>>("floor_bytes", "before a step", MetricUnit::bytes, 2),
    plain<of<&M::host_bytes>>("host_bytes", "host", MetricUnit::bytes, 2),
    plain<of<&M::samples_per_s>>("samples_per_s", "samples/s", MetricUnit::per_second, kForLeast),
    plain<of<&M::tokens_per_s>>("tokens_per_s", "tokens/s", MetricUnit::per_second, kForLeast),
    of_copies<within<&M::transfer, &T::out_bytes>>("out_bytes", "out", MetricUnit::bytes, 2),
    of_copies<within<&M::transfer, &T::in_bytes>>("in_bytes", "in", MetricUnit::bytes, 2),
    of_copies<within<&M::transfer, &T::hidden>>("hidden", "hidden", MetricUnit::share, 0),
    of_copies<within<&M::transfer, &T::exposed_ms>>("exposed_ms", "exposed ms", MetricUnit::ms, 1),
    of_copies<within<&M::transfer, &T::out_gb_per_s>>("out_gb_per_s", "out GB/s", MetricUnit::gb_per_second, 1),
    of_copies<within<&M::transfer, &T::in_gb_per_s>>("in_gb_per_s", "in GB/s", MetricUnit::gb_per_second, 1),
    plain<within<&M::communication, &C::gathered_bytes>>("gathered_bytes", "gathered", MetricUnit::bytes, 2),
    plain<within<&M::communication, &C::reduced_bytes>>("reduced_bytes", "reduced", MetricUnit::bytes, 2),
    plain<within<&M::communication, &C::exposed_ms>>("exposed_communication_ms", "exposed comm. ms", MetricUnit::ms, 1),
    plain<within<&M::communication, &C::collectives_ms>>("collectives_ms", "collectives ms", MetricUnit::ms, 1),
    plain<of<&M::recomputed_ops>>("recomputed_ops", "recomputed", MetricUnit::count, 0),
    plain<of<&M::optimizer_ms>>("optimizer_ms", "optimizer ms", MetricUnit::ms, 2),
};

double largest(const MetricDefinition& metric, std::span<const TrialResultRow* const> rows) {
  double most = 0;
  for (const TrialResultRow* row : rows) most = std::max(most, metric.get(row->measurement));
  return most;
}

double least(const MetricDefinition& metric, std::span<const TrialResultRow* const> rows) {
  double least = std::numeric_limits<double>::infinity();
  for (const TrialResultRow* row : rows) least = std::min(least, metric.get(row->measurement));
  return least;
}

}  // namespace

bool is_whole(MetricUnit unit) { return unit == MetricUnit::bytes || unit == MetricUnit::count; }

std::span<const MetricDefinition> metrics() { return kFigures; }

const MetricDefinition& metric(std::string_view key) {
  const auto found = std::ranges::find(kFigures, key, &MetricDefinition::key);
  if (found == std::end(kFigures)) throw std::out_of_range("no figure " + std::string(key));
  return *found;
}

const MetricDefinition& rate_metric(std::span<const TrialResultRow* const> rows) {
  const MetricDefinition& tokens = metric("tokens_per_s");
  const bool all = std::ranges::all_of(rows, [&](const TrialResultRow* row) { return tokens.known(row->measurement); });
  return all ? tokens : metric("samples_per_s");
}

MetricColumnFormatter::MetricColumnFormatter(const MetricDefinition& metric,
                                             std::span<const TrialResultRow* const> rows)
    : metric_(metric), digits_(metric.digits) {
  if (metric.unit == MetricUnit::bytes) {
    const ByteDisplayUnit unit = unit_for(static_cast<int64_t>(largest(metric, rows)));
    byte_unit_ = unit.name;
    scale_ = 1 / unit.bytes;
  }
  if (metric.unit == MetricUnit::share) scale_ = 100;
  if (digits_ != MetricDefinition::kForLeast) return;
  digits_ =
      metric.unit == MetricUnit::per_second ? (least(metric, rows) >= 100 ? 0 : 2) : digits_for(least(metric, rows));
}

std::string MetricColumnFormatter::head() const {
  if (metric_.unit == MetricUnit::bytes) return std::string(metric_.head) + " " + byte_unit_;
  return metric_.unit == MetricUnit::share ? std::string(metric_.head) + " %" : metric_.head;
}

double MetricColumnFormatter::in_unit(double raw) const { return raw * scale_; }

double MetricColumnFormatter::value(const TrialMeasurement& m) const { return in_unit(metric_.get(m)); }

std::string MetricColumnFormatter::text(const TrialMeasurement& m) const {
  return metric_.known(m) ? text(value(m)) : kNothing;
}

std::string MetricColumnFormatter::text(double value) const { return fixed(value, digits_); }

}  // namespace memtune::result
