#include "gui/model/memory_model.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace memtune::gui {
namespace {

constexpr size_t kGroup = 256;

// Index of the last time that is not after `time`; -1 if all are after it.
int64_t last_not_after(const std::vector<int64_t>& times, int64_t time) {
  return std::upper_bound(times.begin(), times.end(), time) - times.begin() - 1;
}

// Steady owners first, then the blocks in order, then short-lived ones.
std::pair<int, int> order_of(const trace::MemoryOwner& owner) {
  switch (owner.kind) {
    case trace::MemoryOwnerKind::parameters: return {0, 0};
    case trace::MemoryOwnerKind::optimizer: return {0, 1};
    case trace::MemoryOwnerKind::inputs: return {0, 2};
    case trace::MemoryOwnerKind::block: return {1, owner.block};
    case trace::MemoryOwnerKind::gradients: return {2, 0};
    case trace::MemoryOwnerKind::prefetched:
    case trace::MemoryOwnerKind::outside:
    case trace::MemoryOwnerKind::work_space: break;
  }
  return {3, 0};
}

std::vector<OwnerCurve> owners_of(const trace::Trace& trace) {
  std::vector<OwnerCurve> curves;
  for (const trace::MemoryOwner& owner : trace.owners) curves.push_back({owner, {}, {}});
  for (const trace::OwnerMemorySample& sample : trace.owned) {
    OwnerCurve& curve = curves[sample.owner];
    curve.times_ns.push_back(sample.time_ns);
    curve.bytes.push_back(std::max<int64_t>(0, sample.bytes));
  }
  std::erase_if(curves, [](const OwnerCurve& curve) { return curve.times_ns.empty(); });
  std::ranges::stable_sort(curves, {}, [](const OwnerCurve& curve) { return order_of(curve.owner); });
  return curves;
}

std::vector<std::vector<size_t>> families_of(const std::vector<OwnerCurve>& owners) {
  std::vector<std::vector<size_t>> families;
  for (size_t i = 0; i < owners.size(); ++i) {
    const trace::MemoryOwner& owner = owners[i].owner;
    const bool same = owner.kind == trace::MemoryOwnerKind::block && i > 0 &&
                      owners[i - 1].owner.kind == trace::MemoryOwnerKind::block &&
                      family(owners[i - 1].owner) == family(owner);
    if (!same) families.emplace_back();
    families.back().push_back(i);
  }
  return families;
}

}  // namespace

int64_t OwnerCurve::bytes_at(int64_t time_ns) const {
  const int64_t index = last_not_after(times_ns, time_ns);
  return index < 0 ? 0 : bytes[static_cast<size_t>(index)];
}

int64_t Stack::work_space_bytes() const {
  return std::max<int64_t>(0, std::accumulate(owned_bytes.begin(), owned_bytes.end(), allocated_bytes,
                                              [](int64_t left, int64_t owned) { return left - owned; }));
}

Stack MemoryModel::at(int64_t time_ns) const {
  Stack stack;
  const int64_t index = last_not_after(times_ns, time_ns);
  if (index >= 0) stack.allocated_bytes = allocated_bytes[static_cast<size_t>(index)];
  for (const OwnerCurve& owner : owners) stack.owned_bytes.push_back(owner.bytes_at(time_ns));
  return stack;
}

Stack MemoryModel::of_sample(size_t index) const {
  Stack stack = at(times_ns[index]);
  stack.allocated_bytes = allocated_bytes[index];
  return stack;
}

Stack MemoryModel::greatest_between(int64_t start_ns, int64_t end_ns) const {
  if (times_ns.empty()) return at(start_ns);
  // From the first sample at or after `start_ns`, or the one that is current then.
  auto i = static_cast<size_t>(std::ranges::lower_bound(times_ns, start_ns) - times_ns.begin());
  if (i > 0 && (i == times_ns.size() || times_ns[i] > start_ns)) --i;
  size_t best = i;
  while (i < times_ns.size() && times_ns[i] < end_ns) {
    const size_t group_end = i + kGroup;
    const bool whole_group = i % kGroup == 0 && group_end < times_ns.size() && times_ns[group_end] < end_ns;
    if (whole_group && greatest[i / kGroup] <= allocated_bytes[best]) {
      i = group_end;
      continue;
    }
    if (allocated_bytes[i] > allocated_bytes[best]) best = i;
    ++i;
  }
  Stack stack = at(std::max(start_ns, times_ns[best]));
  stack.allocated_bytes = allocated_bytes[best];
  return stack;
}

MemoryModel make_memory(const trace::Trace& trace) {
  MemoryModel model;
  model.owners = owners_of(trace);
  model.families = families_of(model.owners);
  for (const trace::AllocatedBytesSample& sample : trace.memory) {
    if (model.times_ns.size() % kGroup == 0) model.greatest.push_back(sample.allocated_bytes);
    model.greatest.back() = std::max(model.greatest.back(), sample.allocated_bytes);
    model.times_ns.push_back(sample.time_ns);
    model.allocated_bytes.push_back(sample.allocated_bytes);
    if (sample.allocated_bytes > model.allocated_bytes[model.peak]) model.peak = model.times_ns.size() - 1;
  }
  return model;
}

}  // namespace memtune::gui
