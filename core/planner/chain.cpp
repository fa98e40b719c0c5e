#include "core/planner/chain.h"

#include <algorithm>

namespace memtune::planner {
namespace {

const ChainOption& chosen(const Chain& chain, std::span<const int> choice, size_t block) {
  return chain.blocks[block].options[static_cast<size_t>(choice[block])];
}

// How far a step has come, and what it holds.
class ChainWalk {
 public:
  ChainWalk(const Chain& chain, std::span<const int> choice) : chain_(chain), choice_(choice) {}

  ChainCost walk() {
    cost_.fits = link_is_enough();
    for (size_t i = 0; cost_.fits && i < chain_.blocks.size(); ++i) forward(i);
    for (size_t i = chain_.blocks.size(); cost_.fits && i-- > 0;) backward(i);
    return cost_;
  }

 private:
  bool link_is_enough() const {
    int64_t moved = 0;
    for (size_t i = 0; i < chain_.blocks.size(); ++i) moved += chosen(chain_, choice_, i).moved_bytes;
    if (moved == 0) return true;
    const bool has_link = chain_.out_bytes_per_ms > 0 && chain_.in_bytes_per_ms > 0;
    return has_link && (chain_.host_budget_bytes == 0 || moved <= chain_.host_budget_bytes);
  }

  // Waits until so much has left that `bytes` fit beside what stays; the time of that.
  double make_room(double bytes) {
    const double room = static_cast<double>(chain_.budget_bytes) - resident_ - bytes;  // whole, as `leaving_` is not
    if (room < 0) cost_.fits = false;
    const double need = std::max(0.0, leaving_ - room);
    if (need == 0 || !cost_.fits) return 0;
    leaving_ -= need;
    return need / chain_.out_bytes_per_ms;
  }

  void run(double ms) { leaving_ = std::max(0.0, leaving_ - chain_.out_bytes_per_ms * ms); }
  void see_peak(double bytes) {
    cost_.peak_bytes = std::max(cost_.peak_bytes, static_cast<int64_t>(resident_ + leaving_ + bytes));
  }

  void forward(size_t i) {
    const ChainOption& option = chosen(chain_, choice_, i);
    const double bytes = static_cast<double>(option.forward_peak_bytes), wait = make_room(bytes);
    if (!cost_.fits) return;
    see_peak(bytes);
    cost_.forward_wait_ms += wait;
    cost_.ms += wait + chain_.blocks[i].forward_ms;
    run(chain_.blocks[i].forward_ms);
    leaving_ += static_cast<double>(option.moved_bytes);
    resident_ += static_cast<double>(option.resident_bytes);
  }

  void backward(size_t i) {
    const ChainOption& option = chosen(chain_, choice_, i);
    resident_ -= static_cast<double>(option.resident_bytes);
    const double moved = static_cast<double>(option.moved_bytes);
    const double copy = moved > 0 ? moved / chain_.in_bytes_per_ms : 0;
    const double late = std::max(0.0, copy - behind_ms_);  // its copies back began with the block behind it
    run(late);
    const double next = i > 0 ? static_cast<double>(chosen(chain_, choice_, i - 1).moved_bytes) : 0;
    const double bytes = static_cast<double>(option.backward_peak_bytes) + next;
    const double wait = make_room(bytes);
    if (!cost_.fits) return;
    see_peak(bytes);
    behind_ms_ = chain_.blocks[i].backward_ms + option.recompute_ms;
    cost_.backward_wait_ms += late + wait;
    cost_.ms += late + wait + behind_ms_;
    run(behind_ms_);
  }

  const Chain& chain_;
  std::span<const int> choice_;
  ChainCost cost_;
  double resident_ = 0, leaving_ = 0;  // bytes: that stay, and whose copies out have not ended
  double behind_ms_ = 0;               // that the block behind took in backward
};

}  // namespace

ChainCost simulate(const Chain& chain, std::span<const int> choice) { return ChainWalk(chain, choice).walk(); }

}  // namespace memtune::planner
